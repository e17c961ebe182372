// What a request to the daemon's pages brings: its address, Host and Accept headers.
#include <algorithm>
#include <cctype>
#include <string>

#include "base/check.h"
#include "daemon/http/accept_header.h"
#include "daemon/http/host_header.h"
#include "daemon/http/qp_path.h"

namespace urnic::fuzz {
namespace {

using namespace daemon;

std::string small_letters(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
}

void read_path(const std::string& path) {
    const std::optional<QpPath> found = parse_qp_path(path);
    if (!found) return;
    URNIC_CHECK(found->qp.qpn <= 0xffffff && !found->qp.device.empty());
    URNIC_CHECK(found->qp.device.find('/') == std::string::npos);
    const std::string same =
        "/qp/" + found->qp.device + "/" + std::to_string(found->qp.qpn) + (found->is_events ? "/events" : "");
    const std::optional<QpPath> again = parse_qp_path(same);
    URNIC_CHECK(again && again->qp == found->qp && again->is_events == found->is_events);
}

void read_host(const std::string& host) {
    if (!is_numeric_or_localhost(host)) return;
    // A name that somebody can register has a letter outside of hexadecimal numbers, or is no address.
    const std::string name = small_letters(host.substr(0, host.rfind(':')));
    URNIC_CHECK(small_letters(host).starts_with("localhost") ||
                host.find_first_not_of("0123456789abcdefABCDEF.:[]") == std::string::npos);
    URNIC_CHECK(!name.empty() && name.find_first_of(" /@") == std::string::npos);
}

void read_accept(const std::string& accept) {
    if (!is_openmetrics_preferred(accept)) return;
    URNIC_CHECK(small_letters(accept).find("application/openmetrics-text") != std::string::npos);
    // What comes first or last in the list is of no account.
    URNIC_CHECK(is_openmetrics_preferred("image/png," + accept));
    URNIC_CHECK(is_openmetrics_preferred(accept + ", image/png"));
}

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic::fuzz;
    if (size == 0) return 0;
    // The library of the server hands out strings that end with NUL.
    const std::string text(std::string(reinterpret_cast<const char*>(data) + 1, size - 1).c_str());
    switch (data[0] % 3) {
        case 0:
            read_path(text);
            break;
        case 1:
            read_host(text);
            break;
        default:
            read_accept(text);
    }
    return 0;
}
