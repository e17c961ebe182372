// Where the daemon's page of metrics is ("[daemon] http").
#pragma once

#include <cstdint>
#include <string>

namespace urnic::daemon {

struct HttpAddress {
    std::string host = "127.0.0.1";  // of IPv4 or IPv6, without brackets
    std::uint16_t port = 0;
};

/// "127.0.0.1:8471", "[::1]:8471", or "8471": on the loopback address then. Returns whether it is one.
[[nodiscard]] bool parse_http_address(const std::string& text, HttpAddress& address);

}  // namespace urnic::daemon
