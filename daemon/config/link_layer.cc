#include "daemon/config/link_layer.h"

#include <fmt/format.h>

#include <algorithm>

namespace urnic::daemon {

namespace {

constexpr std::int64_t kLargestLid = 0xbfff;  // of unicast (IBA 4.1.3)

bool share_fabric(const RnicConfig& a, const RnicConfig& b) {
    return a.port == PortKind::kFabric && b.port == PortKind::kFabric && a.port_device == b.port_device;
}

bool is_taken(const std::vector<RnicConfig>& rnics, const RnicConfig& rnic, std::uint16_t lid) {
    return std::any_of(rnics.begin(), rnics.end(), [&](const RnicConfig& other) {
        return &other != &rnic && share_fabric(other, rnic) && other.lid == lid;
    });
}

void check_fabric_of(const RnicConfig& rnic, const std::vector<RnicConfig>& rnics) {
    for (const RnicConfig& other : rnics) {
        if (&other == &rnic || !share_fabric(rnic, other)) {
            continue;
        }
        if (other.is_infiniband != rnic.is_infiniband) {
            throw TomlError{{rnic.line, 1},
                            fmt::format("{} has another 'link_layer' than {}, which is on the same fabric: "
                                        "give both the same",
                                        rnic.name, other.name)};
        }
        if (other.has_external_sm != rnic.has_external_sm) {
            throw TomlError{
                {rnic.line, 1},
                fmt::format("{} has another 'subnet_manager' than {}, which is on the same fabric: "
                            "give both the same",
                            rnic.name, other.name)};
        }
        if (rnic.lid != 0 && other.lid == rnic.lid) {
            throw TomlError{{rnic.line, 1},
                            fmt::format("{} and {} have the same 'lid' on one fabric; each "
                                        "must be different, or left out",
                                        rnic.name, other.name)};
        }
    }
}

/// Whose GUIDs the RNIC's agents say is on the same fabric, and says its own.
void check_duplicate_of(const RnicConfig& rnic, const std::vector<RnicConfig>& rnics) {
    const auto owner = std::find_if(rnics.begin(), rnics.end(), [&](const RnicConfig& other) {
        return other.name == rnic.duplicate_guid_of && &other != &rnic && share_fabric(rnic, other);
    });
    if (owner == rnics.end()) {
        throw TomlError{
            {rnic.line, 1},
            fmt::format("'duplicate_guid_of' of {} is \"{}\": it must name another [[rnic]] on fabric "
                        "\"{}\"",
                        rnic.name, rnic.duplicate_guid_of, rnic.port_device)};
    }
    if (!owner->duplicate_guid_of.empty()) {
        throw TomlError{{rnic.line, 1},
                        fmt::format("'duplicate_guid_of' of {} names {}, which has the key itself: name {}",
                                    rnic.name, owner->name, owner->duplicate_guid_of)};
    }
}

}  // namespace

void read_link_layer(TableReader& reader, RnicConfig& rnic) {
    reader.read_choice("link_layer", rnic.is_infiniband, {"ethernet", "infiniband"});
    reader.read_whole("lid", rnic.lid, 1, kLargestLid);
    reader.read_choice("subnet_manager", rnic.has_external_sm, {"builtin", "external"},
                       ": ports are active at once, or a program such as opensm makes them active");
    reader.read_text("duplicate_guid_of", rnic.duplicate_guid_of);
}

void check_link_layer(const toml::table& table, const RnicConfig& rnic) {
    if (!rnic.duplicate_guid_of.empty() && !rnic.has_external_sm) {
        throw_at(table,
                 "'duplicate_guid_of' is for a subnet manager to find: it goes with subnet_manager = "
                 "\"external\"");
    }
    if (!rnic.is_infiniband) {
        if (rnic.lid != 0) {
            throw_at(table, "'lid' goes with link_layer = \"infiniband\"");
        }
        if (rnic.has_external_sm) {
            throw_at(table, "subnet_manager = \"external\" goes with link_layer = \"infiniband\"");
        }
        return;
    }
    if (rnic.has_external_sm && rnic.lid != 0) {
        throw_at(table, "'lid' goes with subnet_manager = \"builtin\": an external one assigns the LIDs");
    }
    if (rnic.port != PortKind::kFabric) {
        throw_at(table, "link_layer = \"infiniband\" needs port = \"fabric\": other ports are Ethernet's");
    }
    const bool has_pfc = rnic.pfc.rx_priorities != 0 || rnic.pfc.tx_priorities != 0;
    const bool has_congestion = rnic.congestion.rate.algorithm != congestion::Algorithm::kNone;
    // An address brings the route to its own link along.
    const bool has_gateways = std::any_of(rnic.routes.begin(), rnic.routes.end(),
                                          [](const RouteConfig& route) { return route.via.has_value(); });
    const char* const wrong = !rnic.vlans.empty()         ? "vlan"
                              : has_gateways              ? "routes' and 'gateway"
                              : rnic.is_ecn_capable       ? "ecn"
                              : rnic.udp_checksum_enabled ? "udp_checksum"
                              : has_pfc                   ? "pfc"
                              : has_congestion            ? "congestion"
                                                          : nullptr;
    if (wrong != nullptr) {
        throw_at(table, fmt::format("'{}' goes with link_layer = \"ethernet\" alone: leave it out", wrong));
    }
}

void finish_link_layers(Config& config) {
    for (RnicConfig& rnic : config.rnics) {
        const auto network = std::find_if(
            config.networks.begin(), config.networks.end(),
            [&](const NetworkConfig& each) { return rnic.is_infiniband && each.fabric == rnic.port_device; });
        if (network != config.networks.end()) {
            rnic.lmc = network->subnet.lmc;
            if (rnic.has_external_sm && rnic.lmc != 0) {
                throw TomlError{
                    {rnic.line, 1},
                    fmt::format("{} has subnet_manager = \"external\", which chooses the LMC: leave "
                                "'lmc' out of the [[network]] of fabric \"{}\"",
                                rnic.name, network->fabric)};
            }
        }
        const std::uint32_t lids = 1U << rnic.lmc;
        if (rnic.lid % lids != 0 || rnic.lid + lids - 1 > kLargestLid) {
            throw TomlError{{rnic.line, 1},
                            fmt::format("{}: 'lid' must be a multiple of {}, for its [[network]] gives each "
                                        "RNIC so many ('lmc')",
                                        rnic.name, lids)};
        }
    }
    for (const RnicConfig& rnic : config.rnics) {
        check_fabric_of(rnic, config.rnics);
        if (!rnic.duplicate_guid_of.empty()) {
            check_duplicate_of(rnic, config.rnics);
        }
    }
    for (RnicConfig& rnic : config.rnics) {
        const std::uint32_t lids = 1U << rnic.lmc;
        const bool is_assigned = rnic.is_infiniband && !rnic.has_external_sm;
        for (std::uint32_t lid = lids; is_assigned && rnic.lid == 0; lid += lids) {
            if (!is_taken(config.rnics, rnic, static_cast<std::uint16_t>(lid))) {
                rnic.lid = static_cast<std::uint16_t>(lid);
            }
        }
    }
}

}  // namespace urnic::daemon
