#include "daemon/config/links.h"

#include "daemon/config/values.h"

namespace urnic::daemon {

namespace {

constexpr std::size_t kMaxRoutes = 64;     // of one link
constexpr std::size_t kMaxVlans = 6;       // with two addresses each, the GID table is nearly full
constexpr std::int64_t kMaxVlanId = 4094;  // IEEE 802.1Q: 0 is no VLAN, 4095 reserved

/// `text` is the whole route.
void add_route(LinkConfig& link, const toml::node& node, const std::string& key, const std::string& text) {
    const auto route = parse_route(text);
    if (!route) {
        throw_at(node, fmt::format("'{}' has \"{}\"; a gateway is an address, \"198.18.0.254\", a route says "
                                   "where to and by whom, \"10.1.0.0/16 via 198.18.0.254\"",
                                   key, text));
    }
    link.routes.push_back(*route);
}

}  // namespace

void set_ipv4(LinkConfig& link, const toml::node& node, const std::string& key) {
    link.ipv4 = parse_ipv4(get_string(node, key));
    if (!link.ipv4) {
        throw_at(node,
                 fmt::format("'{}' must be a unicast IPv4 address, for example \"198.18.0.1/24\"", key));
    }
    link.routes.push_back(link_route(get_string(node, key), *link.ipv4));
}

void set_ipv6(LinkConfig& link, const toml::node& node, const std::string& key) {
    link.ipv6 = parse_ipv6(get_string(node, key));
    if (!link.ipv6) {
        throw_at(node, fmt::format("'{}' must be a unicast IPv6 address, for example \"fd00::1/64\"", key));
    }
    link.routes.push_back(link_route(get_string(node, key), *link.ipv6));
}

void set_gateway(LinkConfig& link, const toml::node& node, const std::string& key) {
    add_route(link, node, key, "default via " + get_string(node, key));
}

void set_routes(LinkConfig& link, const toml::node& node, const std::string& key) {
    const auto* list = node.as_array();
    if (list == nullptr || list->size() > kMaxRoutes) {
        throw_at(node, fmt::format("'{}' must be a list of at most {} strings, for example "
                                   "[\"10.1.0.0/16 via 198.18.0.254\"]",
                                   key, kMaxRoutes));
    }
    for (const auto& entry : *list) {
        add_route(link, entry, key, get_string(entry, key));
    }
}

namespace {

constexpr Key<LinkConfig> kVlanKeys[] = {
    {"id",
     [](LinkConfig& link, const toml::node& node, const std::string& key) {
         link.vlan = static_cast<std::uint16_t>(get_int(node, key, 1, kMaxVlanId));
     }},
    {"ipv4", set_ipv4},
    {"ipv6", set_ipv6},
    {"gateway", set_gateway},
    {"routes", set_routes},
};

}  // namespace

void read_vlans(const toml::node& node, RnicConfig& rnic) {
    const auto* const list = node.as_array();
    if (list == nullptr || !node.is_array_of_tables() || list->size() > kMaxVlans) {
        throw_at(node, fmt::format("'vlan' must be [[rnic.vlan]] (double brackets), at most {} of an RNIC",
                                   kMaxVlans));
    }
    for (const auto& entry : *list) {
        LinkConfig link;
        read_table(*entry.as_table(), "[[rnic.vlan]]", kVlanKeys, link);
        if (link.vlan == 0 || (!link.ipv4 && !link.ipv6)) {
            throw_at(entry, "a [[rnic.vlan]] needs 'id', and 'ipv4' or 'ipv6'");
        }
        for (const LinkConfig& other : rnic.vlans) {
            if (other.vlan == link.vlan) {
                throw_at(
                    entry,
                    fmt::format(
                        "this RNIC has a [[rnic.vlan]] with id = {} already; one table holds its ipv4 and "
                        "its ipv6",
                        link.vlan));
            }
        }
        rnic.vlans.push_back(link);
    }
}

const char* same_vlan_address(const RnicConfig& a, const RnicConfig& b) {
    for (const LinkConfig& link : a.vlans) {
        for (const LinkConfig& other : b.vlans) {
            if (link.vlan == other.vlan && link.ipv4 && link.ipv4 == other.ipv4) {
                return "ipv4 of a vlan";
            }
            if (link.vlan == other.vlan && link.ipv6 && link.ipv6 == other.ipv6) {
                return "ipv6 of a vlan";
            }
        }
    }
    return nullptr;
}

}  // namespace urnic::daemon
