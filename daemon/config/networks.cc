#include "daemon/config/networks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "daemon/config/pfc.h"

namespace urnic::dataplane {

namespace {

constexpr std::int64_t kMostBytes = 4LL << 20U;  // that the frames of an EmulatedNetwork can hold
constexpr std::int64_t kLeastBuffer = 16384;
constexpr std::int64_t kMostSwitches = 64;
constexpr std::int64_t kMostWeight = 1'000;
constexpr std::int64_t kMostWireWatchdogMs = 60'000;
constexpr std::uint64_t kHeadroomBytes = 100'000;
constexpr double kMostWireMbps = 100'000;
constexpr double kMostWireDelayUs = 100'000;
constexpr std::string_view kShapes[] = {"star", "dumbbell", "parking-lot", "leaf-spine"};

double real_of(const toml::node& node, const std::string& key, double least, double most) {
    const auto value = node.value<double>();
    if (!value || !node.is_number() || !(*value >= least && *value <= most)) {
        throw_at(node, fmt::format("'{}' must be a number from {} to {}", key, least, most));
    }
    return *value;
}

template <auto Member>
void set_bytes(WireConfig& wire, const toml::node& node, const std::string& key) {
    wire.*Member = static_cast<std::uint64_t>(get_int(node, key, 0, kMostBytes));
}

template <auto Member>
void set_rate(WireConfig& wire, const toml::node& node, const std::string& key) {
    wire.*Member = static_cast<std::uint64_t>(std::llround(real_of(node, key, 1, kMostWireMbps) * 1e6));
}

template <auto Member>
void set_delay(WireConfig& wire, const toml::node& node, const std::string& key) {
    wire.*Member = static_cast<TimeNs>(std::llround(real_of(node, key, 0, kMostWireDelayUs) * 1e3));
}

template <auto Member>
void set_pfc_bytes(WireConfig& wire, const toml::node& node, const std::string& key) {
    wire.pfc.*Member = static_cast<std::uint64_t>(get_int(node, key, 0, kMostBytes));
}

template <auto Member>
void set_switches(WireConfig& wire, const toml::node& node, const std::string& key) {
    wire.*Member = static_cast<std::uint32_t>(get_int(node, key, 1, kMostSwitches));
}

void set_shape(WireConfig& wire, const toml::node& node, const std::string& key) {
    const auto found = std::find(std::begin(kShapes), std::end(kShapes), get_string(node, key));
    if (found == std::end(kShapes)) {
        throw_at(node, fmt::format("'{}' must be \"{}\"", key, fmt::join(kShapes, "\", \"")));
    }
    wire.shape = static_cast<WireShape>(found - std::begin(kShapes));
}

void set_weights(WireConfig& wire, const toml::node& node, const std::string& key) {
    const auto* const list = node.as_array();
    if (list == nullptr || list->size() != wire.weights.size()) {
        throw_at(node, fmt::format("'{}' must be a list of {} numbers, of priority 0 first", key,
                                   wire.weights.size()));
    }
    for (std::size_t priority = 0; priority < wire.weights.size(); ++priority) {
        wire.weights[priority] = static_cast<std::uint32_t>(get_int((*list)[priority], key, 0, kMostWeight));
    }
}

constexpr Key<WireConfig> kWireKeys[] = {
    {"fabric", [](WireConfig& wire, const toml::node& node,
                  const std::string& key) { wire.fabric = get_string(node, key); }},
    {"topology", set_shape},
    {"switches", set_switches<&WireConfig::switches>},
    {"leaves", set_switches<&WireConfig::switches>},
    {"spines", set_switches<&WireConfig::spines>},
    {"link_mbps", set_rate<&WireConfig::link_rate>},
    {"delay_us", set_delay<&WireConfig::delay_ns>},
    {"trunk_mbps", set_rate<&WireConfig::trunk_rate>},
    {"trunk_delay_us", set_delay<&WireConfig::trunk_delay_ns>},
    {"weights", set_weights},
    {"pfc", [](WireConfig& wire, const toml::node& node,
               const std::string& key) { wire.pfc.lossless = get_priorities(node, key); }},
    {"xoff_bytes", set_pfc_bytes<&netsim::PfcOptions::xoff_bytes>},
    {"xon_bytes", set_pfc_bytes<&netsim::PfcOptions::xon_bytes>},
    {"headroom_bytes", set_pfc_bytes<&netsim::PfcOptions::headroom_bytes>},
    {"watchdog_ms",
     [](WireConfig& wire, const toml::node& node, const std::string& key) {
         wire.pfc.watchdog_ns = static_cast<TimeNs>(get_int(node, key, 0, kMostWireWatchdogMs)) * 1'000'000;
     }},
    {"buffer_bytes",
     [](WireConfig& wire, const toml::node& node, const std::string& key) {
         wire.buffer_bytes = static_cast<std::uint64_t>(get_int(node, key, kLeastBuffer, kMostBytes));
     }},
    {"ecn_kmin_bytes", set_bytes<&WireConfig::ecn_kmin_bytes>},
    {"ecn_kmax_bytes", set_bytes<&WireConfig::ecn_kmax_bytes>},
    {"ecn_pmax", [](WireConfig& wire, const toml::node& node,
                    const std::string& key) { wire.ecn_pmax = real_of(node, key, 0, 1); }},
};

bool is_on(const RnicConfig& rnic, const std::string& fabric) {
    return rnic.port == PortKind::kFabric && rnic.port_device == fabric;
}

/// The fabrics that there are, for a message.
std::string fabrics_of(const Config& config) {
    std::set<std::string> names;
    for (const RnicConfig& rnic : config.rnics) {
        if (rnic.port == PortKind::kFabric) {
            names.insert(rnic.port_device);
        }
    }
    std::string list;
    for (const std::string& name : names) {
        list += (list.empty() ? "\"" : ", \"") + name + "\"";
    }
    return list.empty() ? "none, since no [[rnic]] has port = \"fabric\"" : list;
}

void check_fabric(const toml::table& table, const WireConfig& wire, const Config& config) {
    const auto on_it = std::count_if(config.rnics.begin(), config.rnics.end(),
                                     [&](const RnicConfig& rnic) { return is_on(rnic, wire.fabric); });
    if (wire.fabric.empty()) {
        throw_at(table, fmt::format("this [[wire]] has no 'fabric'; there are: {}", fabrics_of(config)));
    }
    if (on_it == 0) {
        throw_at(table, fmt::format("'fabric' is \"{}\"; it must be one that RNICs are on: {}", wire.fabric,
                                    fabrics_of(config)));
    }
    if (on_it == 1) {
        throw_at(table,
                 fmt::format("the fabric \"{}\" has one RNIC: a [[wire]] needs two or more", wire.fabric));
    }
    if (std::any_of(config.wires.begin(), config.wires.end(),
                    [&](const WireConfig& other) { return other.fabric == wire.fabric; })) {
        throw_at(table, fmt::format("the fabric \"{}\" has a [[wire]] already; one says all", wire.fabric));
    }
}

void check_marks(const toml::table& table, const WireConfig& wire) {
    if (wire.ecn_kmax_bytes == 0) {
        if (wire.ecn_kmin_bytes != 0) {
            throw_at(table, "'ecn_kmin_bytes' needs 'ecn_kmax_bytes': without it nothing is marked");
        }
        return;
    }
    if (wire.ecn_kmin_bytes >= wire.ecn_kmax_bytes) {
        throw_at(table, "'ecn_kmin_bytes' must be less than 'ecn_kmax_bytes'");
    }
    if (wire.ecn_kmin_bytes >= wire.buffer_bytes) {
        throw_at(table,
                 fmt::format("'ecn_kmin_bytes' must be less than 'buffer_bytes', which is {}: frames are "
                             "dropped before any is marked",
                             wire.buffer_bytes));
    }
}

// Keys that say nothing of this shape.
void refuse_keys(const toml::table& table, const WireConfig& wire, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
        if (const toml::node* const node = table.get(key)) {
            throw_at(*node, fmt::format("'{}' is of no use with topology = \"{}\"", key,
                                        kShapes[static_cast<std::size_t>(wire.shape)]));
        }
    }
}

// As many RNICs on each switch, those that come first in the file on the first.
void check_shape(const toml::table& table, WireConfig& wire, const Config& config) {
    const auto rnics = static_cast<std::uint32_t>(
        std::count_if(config.rnics.begin(), config.rnics.end(),
                      [&](const RnicConfig& rnic) { return is_on(rnic, wire.fabric); }));
    const char* key = "leaves";
    switch (wire.shape) {
        case WireShape::kStar:
            refuse_keys(table, wire, {"switches", "leaves", "spines", "trunk_mbps", "trunk_delay_us"});
            wire.switches = 1;
            break;
        case WireShape::kDumbbell:
            refuse_keys(table, wire, {"switches", "leaves", "spines"});
            wire.switches = 2;
            break;
        case WireShape::kParkingLot:
            refuse_keys(table, wire, {"leaves", "spines"});
            key = "switches";
            break;
        case WireShape::kLeafSpine:
            refuse_keys(table, wire, {"switches"});
            if (wire.spines == 0) {
                throw_at(table, "topology = \"leaf-spine\" needs 'leaves' and 'spines'");
            }
            break;
    }
    if (wire.switches == 0) {
        throw_at(table, fmt::format("topology = \"{}\" needs '{}'",
                                    kShapes[static_cast<std::size_t>(wire.shape)], key));
    }
    if (rnics % wire.switches != 0) {
        throw_at(table,
                 fmt::format("{} RNICs cannot be spread evenly over {} switches", rnics, wire.switches));
    }
}

void check_pauses(const toml::table& table, WireConfig& wire) {
    netsim::PfcOptions& pfc = wire.pfc;
    if (pfc.lossless == 0) {
        for (const char* key : {"xoff_bytes", "xon_bytes", "headroom_bytes", "watchdog_ms"}) {
            if (table.contains(key)) {
                throw_at(table,
                         fmt::format("'{}' needs 'pfc', the priorities that are not dropped, for example [3]",
                                     key));
            }
        }
        return;
    }
    if (!table.contains("xoff_bytes")) {
        pfc.xoff_bytes = wire.buffer_bytes / 4;
    }
    if (!table.contains("xon_bytes")) {
        pfc.xon_bytes = pfc.xoff_bytes - pfc.xoff_bytes / 10;
    }
    if (!table.contains("headroom_bytes")) {
        pfc.headroom_bytes = kHeadroomBytes;
    }
    if (pfc.xoff_bytes >= wire.buffer_bytes) {
        throw_at(table, fmt::format("'xoff_bytes' must be less than 'buffer_bytes', which is {}",
                                    wire.buffer_bytes));
    }
    if (pfc.xon_bytes >= pfc.xoff_bytes) {
        throw_at(table,
                 fmt::format("'xon_bytes' must be less than 'xoff_bytes', which is {}", pfc.xoff_bytes));
    }
}

}  // namespace

void read_wire_tables(const toml::node* wires, Config& config) {
    if (wires == nullptr) {
        return;
    }
    for (const auto& entry : *wires->as_array()) {
        const toml::table& table = *entry.as_table();
        WireConfig wire;
        read_table(table, "[[wire]]", kWireKeys, wire);
        check_fabric(table, wire, config);
        check_shape(table, wire, config);
        check_marks(table, wire);
        check_pauses(table, wire);
        config.wires.push_back(wire);
    }
}

}  // namespace urnic::dataplane
