#include "daemon/config/http_address.h"

#include <arpa/inet.h>

#include <array>
#include <charconv>

namespace urnic::daemon {

bool parse_http_address(const std::string& text, HttpAddress& address) {
    const std::size_t colon = text.rfind(':');
    std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
    const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
    const auto parsed = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (parsed.ec != std::errc{} || parsed.ptr != port.data() + port.size() || address.port == 0) {
        return false;
    }
    if (colon == std::string::npos) {
        return true;
    }
    std::array<std::uint8_t, 16> bytes{};
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        address.host = host.substr(1, host.size() - 2);
        return ::inet_pton(AF_INET6, address.host.c_str(), bytes.data()) == 1;
    }
    address.host = host;
    return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1;
}

}  // namespace urnic::daemon
