#include "daemon/http/host_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace urnic::daemon {

namespace {

/// "" or ":8471".
bool is_port(std::string_view text) {
    return text.empty() ||
           (text.front() == ':' &&
            std::all_of(text.begin() + 1, text.end(), [](unsigned char c) { return std::isdigit(c) != 0; }));
}

bool is_localhost(std::string_view name) {
    constexpr std::string_view kLocalhost = "localhost";
    return name.size() == kLocalhost.size() &&
           std::equal(name.begin(), name.end(), kLocalhost.begin(),
                      [](unsigned char a, char b) { return std::tolower(a) == b; });
}

}  // namespace

bool is_numeric_or_localhost(std::string_view host) {
    in6_addr address{};
    if (!host.empty() && host.front() == '[') {
        const std::size_t end = host.find(']');
        return end != std::string_view::npos && is_port(host.substr(end + 1)) &&
               ::inet_pton(AF_INET6, std::string(host.substr(1, end - 1)).c_str(), &address) == 1;
    }
    const std::size_t colon = std::min(host.find(':'), host.size());
    const std::string name(host.substr(0, colon));
    return is_port(host.substr(colon)) &&
           (is_localhost(name) || ::inet_pton(AF_INET, name.c_str(), &address) == 1);
}

}  // namespace urnic::daemon
