#include "daemon/config/links.h"

#include <fmt/format.h>

#include "daemon/config/values.h"

namespace urnic::daemon {

namespace {

constexpr std::size_t kMaxRoutes = 64;     // of one link
constexpr std::size_t kMaxVlans = 6;       // with two addresses each, the GID table is nearly full
constexpr std::int64_t kMaxVlanId = 4094;  // IEEE 802.1Q: 0 is no VLAN, 4095 reserved

/// `text` is the whole route.
void add_route(LinkConfig& link, const TableReader& reader, const toml::node& node, const char* key,
               const std::string& text) {
    const auto route = parse_route(text);
    if (!route) {
        reader.fail_at(node, key,
                       fmt::format("has \"{}\"; a gateway is an address, \"198.18.0.254\", a route says "
                                   "where to and by whom, \"10.1.0.0/16 via 198.18.0.254\"",
                                   text));
    }
    link.routes.push_back(*route);
}

void add_address(LinkConfig& link, TableReader& reader, const char* key, std::optional<wire::Gid>& address,
                 std::optional<wire::Gid> (*parse)(const std::string&), const char* wanted) {
    if (const auto text = reader.find_text(key)) {
        address = parse(*text);
        if (!address) {
            reader.fail(key, wanted);
        }
        link.routes.push_back(link_route(*text, *address));
    }
}

}  // namespace

void read_link(TableReader& reader, LinkConfig& link) {
    if (const auto gateway = reader.find_text("gateway")) {
        add_route(link, reader, *reader.find("gateway"), "gateway", "default via " + *gateway);
    }
    add_address(link, reader, "ipv4", link.ipv4, parse_ipv4,
                "must be a unicast IPv4 address, for example \"198.18.0.1/24\"");
    add_address(link, reader, "ipv6", link.ipv6, parse_ipv6,
                "must be a unicast IPv6 address, for example \"fd00::1/64\"");
    const toml::array* const routes =
        reader.find_list("routes", 0, kMaxRoutes,
                         fmt::format("must be a list of at most {} strings, for example "
                                     "[\"10.1.0.0/16 via 198.18.0.254\"]",
                                     kMaxRoutes));
    for (std::size_t i = 0; routes != nullptr && i < routes->size(); ++i) {
        add_route(link, reader, (*routes)[i], "routes", reader.text_at((*routes)[i], "routes"));
    }
}

void read_vlans(TableReader& reader, RnicConfig& rnic) {
    reader.read_tables("vlan", [&rnic](TableReader& vlan) {
        LinkConfig link;
        vlan.read_whole("id", link.vlan, 1, kMaxVlanId);
        read_link(vlan, link);
        vlan.finish();
        if (link.vlan == 0 || (!link.ipv4 && !link.ipv6)) {
            throw_at(vlan.table(), "a [[rnic.vlan]] needs 'id', and 'ipv4' or 'ipv6'");
        }
        if (rnic.vlans.size() == kMaxVlans) {
            throw_at(vlan.table(), fmt::format("an RNIC has at most {} [[rnic.vlan]]", kMaxVlans));
        }
        for (const LinkConfig& other : rnic.vlans) {
            if (other.vlan == link.vlan) {
                throw_at(
                    vlan.table(),
                    fmt::format(
                        "this RNIC has a [[rnic.vlan]] with id = {} already; one table holds its ipv4 and "
                        "its ipv6",
                        link.vlan));
            }
        }
        rnic.vlans.push_back(link);
    });
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
