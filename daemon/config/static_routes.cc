#include "daemon/config/static_routes.h"

#include <algorithm>
#include <charconv>

#include "daemon/config/values.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kMappedBits = 96;

bool matches(const RouteConfig& route, const wire::Gid& to) {
    const std::uint32_t bytes = route.prefix_bits / 8;
    const std::uint32_t rest = route.prefix_bits % 8;
    const auto mask = static_cast<std::uint8_t>(0xff00U >> rest);
    return std::equal(to.begin(), to.begin() + bytes, route.to.begin()) &&
           (rest == 0 || ((to[bytes] ^ route.to[bytes]) & mask) == 0);
}

std::optional<wire::Gid> parse_address(const std::string& text) {
    const auto ipv4 = parse_ipv4(text);
    return ipv4 ? ipv4 : parse_ipv6(text);
}

/// The number behind the slash, counted in 128 bits.
std::optional<std::uint32_t> prefix_of(const std::string& text, bool is_ipv4) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) {
        return std::nullopt;
    }
    std::uint32_t bits = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + slash + 1, end, bits);
    if (parsed.ec != std::errc{} || parsed.ptr != end || bits > (is_ipv4 ? 32U : 128U)) {
        return std::nullopt;
    }
    return is_ipv4 ? bits + kMappedBits : bits;
}

}  // namespace

const RouteConfig* find_route(const std::vector<RouteConfig>& routes, const wire::Gid& to) {
    const RouteConfig* best = nullptr;
    for (const RouteConfig& route : routes) {
        // ::/0 is no route to IPv4-mapped addresses.
        if (wire::is_ipv4_mapped(route.to) == wire::is_ipv4_mapped(to) && matches(route, to) &&
            (best == nullptr || route.prefix_bits > best->prefix_bits)) {
            best = &route;
        }
    }
    return best;
}

std::optional<RouteConfig> parse_route(const std::string& text) {
    constexpr const char* kVia = " via ";
    const auto at = text.find(kVia);
    if (at == std::string::npos) {
        return std::nullopt;
    }
    const std::string to = text.substr(0, at);
    RouteConfig route;
    route.via = parse_address(text.substr(at + 5));
    if (!route.via || text.find('/', at) != std::string::npos) {
        return std::nullopt;
    }
    const bool is_ipv4 = wire::is_ipv4_mapped(*route.via);
    if (to == "default") {
        route.to[10] = route.to[11] = is_ipv4 ? 0xff : 0;
        route.prefix_bits = is_ipv4 ? kMappedBits : 0;
        return route;
    }
    const auto address = parse_address(to);
    const auto bits = prefix_of(to, is_ipv4);
    if (!address || !bits || wire::is_ipv4_mapped(*address) != is_ipv4) {
        return std::nullopt;
    }
    route.to = *address;
    route.prefix_bits = *bits;
    return route;
}

RouteConfig link_route(const std::string& text, const wire::Gid& address) {
    const bool is_ipv4 = wire::is_ipv4_mapped(address);
    return {address, prefix_of(text, is_ipv4).value_or(is_ipv4 ? kMappedBits : 0), std::nullopt};
}

}  // namespace urnic::daemon
