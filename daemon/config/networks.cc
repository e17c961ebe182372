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
#include "daemon/config/subnets.h"

namespace urnic::daemon {

namespace {

constexpr std::int64_t kMaxNetworkBytes = 4LL << 20U;  // that the frames of an EmulatedNetwork can hold
constexpr std::int64_t kMinBufferBytes = 16384;
constexpr std::int64_t kMaxSwitches = 64;
constexpr std::int64_t kMaxWeight = 1'000;
constexpr std::int64_t kMaxNetworkWatchdogMs = 60'000;
constexpr std::uint64_t kDefaultHeadroomBytes = 100'000;
constexpr double kMaxNetworkMbps = 100'000;
constexpr double kMaxNetworkDelayUs = 100'000;
constexpr std::string_view kShapes[] = {"star", "dumbbell", "parking-lot", "leaf-spine"};

double get_real(const toml::node& node, const std::string& key, double least, double most) {
    const auto value = node.value<double>();
    if (!value || !node.is_number() || !(*value >= least && *value <= most)) {
        throw_at(node, fmt::format("'{}' must be a number from {} to {}", key, least, most));
    }
    return *value;
}

template <auto Member>
void set_bytes(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.*Member = static_cast<std::uint64_t>(get_int(node, key, 0, kMaxNetworkBytes));
}

template <auto Member>
void set_rate(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.*Member = static_cast<std::uint64_t>(std::llround(get_real(node, key, 1, kMaxNetworkMbps) * 1e6));
}

template <auto Member>
void set_delay(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.*Member = static_cast<TimeNs>(std::llround(get_real(node, key, 0, kMaxNetworkDelayUs) * 1e3));
}

template <auto Member>
void set_pfc_bytes(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.pfc.*Member = static_cast<std::uint64_t>(get_int(node, key, 0, kMaxNetworkBytes));
}

template <auto Member>
void set_switches(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.*Member = static_cast<std::uint32_t>(get_int(node, key, 1, kMaxSwitches));
}

void set_shape(NetworkConfig& network, const toml::node& node, const std::string& key) {
    const auto found = std::find(std::begin(kShapes), std::end(kShapes), get_string(node, key));
    if (found == std::end(kShapes)) {
        throw_at(node, fmt::format("'{}' must be \"{}\"", key, fmt::join(kShapes, "\", \"")));
    }
    network.shape = static_cast<NetworkShape>(found - std::begin(kShapes));
}

void set_weights(NetworkConfig& network, const toml::node& node, const std::string& key) {
    const auto* const list = node.as_array();
    if (list == nullptr || list->size() != network.weights.size()) {
        throw_at(node, fmt::format("'{}' must be a list of {} numbers, of priority 0 first", key,
                                   network.weights.size()));
    }
    for (std::size_t priority = 0; priority < network.weights.size(); ++priority) {
        network.weights[priority] =
            static_cast<std::uint32_t>(get_int((*list)[priority], key, 0, kMaxWeight));
    }
}

constexpr Key<NetworkConfig> kNetworkKeys[] = {
    {"fabric", [](NetworkConfig& network, const toml::node& node,
                  const std::string& key) { network.fabric = get_string(node, key); }},
    {"topology", set_shape},
    {"switches", set_switches<&NetworkConfig::switches>},
    {"leaves", set_switches<&NetworkConfig::switches>},
    {"spines", set_switches<&NetworkConfig::spines>},
    {"link_mbps", set_rate<&NetworkConfig::link_rate>},
    {"delay_us", set_delay<&NetworkConfig::delay_ns>},
    {"trunk_mbps", set_rate<&NetworkConfig::trunk_rate>},
    {"trunk_delay_us", set_delay<&NetworkConfig::trunk_delay_ns>},
    {"weights", set_weights},
    {"pfc", [](NetworkConfig& network, const toml::node& node,
               const std::string& key) { network.pfc.lossless = get_priorities(node, key); }},
    {"xoff_bytes", set_pfc_bytes<&netsim::PfcOptions::xoff_bytes>},
    {"xon_bytes", set_pfc_bytes<&netsim::PfcOptions::xon_bytes>},
    {"headroom_bytes", set_pfc_bytes<&netsim::PfcOptions::headroom_bytes>},
    {"watchdog_ms",
     [](NetworkConfig& network, const toml::node& node, const std::string& key) {
         network.pfc.watchdog_ns =
             static_cast<TimeNs>(get_int(node, key, 0, kMaxNetworkWatchdogMs)) * 1'000'000;
     }},
    {"buffer_bytes",
     [](NetworkConfig& network, const toml::node& node, const std::string& key) {
         network.buffer_bytes =
             static_cast<std::uint64_t>(get_int(node, key, kMinBufferBytes, kMaxNetworkBytes));
     }},
    {"lmc", set_lmc},
    {"vls", set_vls},
    {"sl_to_vl", set_sl_to_vl},
    {"vl_high", set_vl_high},
    {"vl_low", set_vl_low},
    {"vl_high_limit", set_vl_high_limit},
    {"vl_buffer_bytes", set_vl_buffer},
    {"hoq_life", set_hoq_life},
    {"switch_life", set_switch_life},
    {"idle_hosts", set_idle_hosts},
    {"ecn_kmin_bytes", set_bytes<&NetworkConfig::ecn_kmin_bytes>},
    {"ecn_kmax_bytes", set_bytes<&NetworkConfig::ecn_kmax_bytes>},
    {"ecn_pmax", [](NetworkConfig& network, const toml::node& node,
                    const std::string& key) { network.ecn_pmax = get_real(node, key, 0, 1); }},
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

void check_fabric(const toml::table& table, const NetworkConfig& network, const Config& config) {
    const auto on_it = std::count_if(config.rnics.begin(), config.rnics.end(),
                                     [&](const RnicConfig& rnic) { return is_on(rnic, network.fabric); });
    if (network.fabric.empty()) {
        throw_at(table, fmt::format("this [[network]] has no 'fabric'; there are: {}", fabrics_of(config)));
    }
    if (on_it == 0) {
        throw_at(table, fmt::format("'fabric' is \"{}\"; it must be one that RNICs are on: {}",
                                    network.fabric, fabrics_of(config)));
    }
    if (on_it == 1) {
        throw_at(table, fmt::format("the fabric \"{}\" has one RNIC: a [[network]] needs two or more",
                                    network.fabric));
    }
    if (std::any_of(config.networks.begin(), config.networks.end(),
                    [&](const NetworkConfig& other) { return other.fabric == network.fabric; })) {
        throw_at(table,
                 fmt::format("the fabric \"{}\" has a [[network]] already; one says all", network.fabric));
    }
}

void check_marks(const toml::table& table, const NetworkConfig& network) {
    if (network.ecn_kmax_bytes == 0) {
        if (network.ecn_kmin_bytes != 0) {
            throw_at(table, "'ecn_kmin_bytes' needs 'ecn_kmax_bytes': without it nothing is marked");
        }
        return;
    }
    if (network.ecn_kmin_bytes >= network.ecn_kmax_bytes) {
        throw_at(table, "'ecn_kmin_bytes' must be less than 'ecn_kmax_bytes'");
    }
    if (network.ecn_kmin_bytes >= network.buffer_bytes) {
        throw_at(table,
                 fmt::format("'ecn_kmin_bytes' must be less than 'buffer_bytes', which is {}: frames are "
                             "dropped before any is marked",
                             network.buffer_bytes));
    }
}

// Keys that say nothing of this shape.
void refuse_keys(const toml::table& table, const NetworkConfig& network,
                 std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
        if (const toml::node* const node = table.get(key)) {
            throw_at(*node, fmt::format("'{}' is of no use with topology = \"{}\"", key,
                                        kShapes[static_cast<std::size_t>(network.shape)]));
        }
    }
}

// As many RNICs on each switch, those that come first in the file on the first.
void check_shape(const toml::table& table, NetworkConfig& network, const Config& config) {
    const auto rnics = static_cast<std::uint32_t>(
        std::count_if(config.rnics.begin(), config.rnics.end(),
                      [&](const RnicConfig& rnic) { return is_on(rnic, network.fabric); }));
    const char* key = "leaves";
    switch (network.shape) {
        case NetworkShape::kStar:
            refuse_keys(table, network, {"switches", "leaves", "spines", "trunk_mbps", "trunk_delay_us"});
            network.switches = 1;
            break;
        case NetworkShape::kDumbbell:
            refuse_keys(table, network, {"switches", "leaves", "spines"});
            network.switches = 2;
            break;
        case NetworkShape::kParkingLot:
            refuse_keys(table, network, {"leaves", "spines"});
            key = "switches";
            break;
        case NetworkShape::kLeafSpine:
            refuse_keys(table, network, {"switches"});
            if (network.spines == 0) {
                throw_at(table, "topology = \"leaf-spine\" needs 'leaves' and 'spines'");
            }
            break;
    }
    if (network.switches == 0) {
        throw_at(table, fmt::format("topology = \"{}\" needs '{}'",
                                    kShapes[static_cast<std::size_t>(network.shape)], key));
    }
    if (rnics % network.switches != 0) {
        throw_at(table,
                 fmt::format("{} RNICs cannot be spread evenly over {} switches", rnics, network.switches));
    }
}

void check_pauses(const toml::table& table, NetworkConfig& network) {
    netsim::PfcOptions& pfc = network.pfc;
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
        pfc.xoff_bytes = network.buffer_bytes / 4;
    }
    if (!table.contains("xon_bytes")) {
        pfc.xon_bytes = pfc.xoff_bytes - pfc.xoff_bytes / 10;
    }
    if (!table.contains("headroom_bytes")) {
        pfc.headroom_bytes = kDefaultHeadroomBytes;
    }
    if (pfc.xoff_bytes >= network.buffer_bytes) {
        throw_at(table, fmt::format("'xoff_bytes' must be less than 'buffer_bytes', which is {}",
                                    network.buffer_bytes));
    }
    if (pfc.xon_bytes >= pfc.xoff_bytes) {
        throw_at(table,
                 fmt::format("'xon_bytes' must be less than 'xoff_bytes', which is {}", pfc.xoff_bytes));
    }
}

}  // namespace

void read_network_tables(const toml::node* networks, Config& config) {
    if (networks == nullptr) {
        return;
    }
    for (const auto& entry : *networks->as_array()) {
        const toml::table& table = *entry.as_table();
        NetworkConfig network;
        read_table(table, "[[network]]", kNetworkKeys, network);
        check_fabric(table, network, config);
        check_shape(table, network, config);
        // Those of a fabric agree.
        const auto rnic = std::find_if(config.rnics.begin(), config.rnics.end(),
                                       [&](const RnicConfig& each) { return is_on(each, network.fabric); });
        check_subnet(table, network, rnic->is_infiniband, rnic->has_external_sm);
        check_marks(table, network);
        check_pauses(table, network);
        config.networks.push_back(network);
    }
}

}  // namespace urnic::daemon
