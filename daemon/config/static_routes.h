// Routes of RNICs that have addresses of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

/// Destinations with the first `prefix_bits` bits of `to` (of 128: IPv4 addresses are IPv4-mapped) are on the
/// link, or behind a gateway.
struct RouteConfig {
    wire::Gid to{};
    std::uint32_t prefix_bits = 0;
    std::optional<wire::Gid> via;
};

/// The route with the longest prefix; nullptr: none.
[[nodiscard]] const RouteConfig* find_route(const std::vector<RouteConfig>& routes, const wire::Gid& to);

/// "10.1.0.0/16 via 10.0.0.254", "default via fd00::1"; nullopt: not of that form.
[[nodiscard]] std::optional<RouteConfig> parse_route(const std::string& text);
/// The route to the link that an address with a prefix length stands for, "10.0.0.1/24"; without one
/// everything of its kind is on the link.
[[nodiscard]] RouteConfig link_route(const std::string& text, const wire::Gid& address);

}  // namespace urnic::daemon
