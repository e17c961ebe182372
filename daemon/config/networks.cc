#include "daemon/config/networks.h"

#include <fmt/format.h>

#include <algorithm>
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

void read_rate(TableReader& reader, const char* key, BitsPerSecond& rate) {
    reader.read_scaled(key, rate, 1e6, 1, kMaxNetworkMbps);
}

void read_delay(TableReader& reader, const char* key, TimeNs& delay_ns) {
    reader.read_scaled(key, delay_ns, 1e3, 0, kMaxNetworkDelayUs);
}

void read_bytes(TableReader& reader, const char* key, std::uint64_t& bytes, std::int64_t least = 0) {
    reader.read_whole(key, bytes, least, kMaxNetworkBytes);
}

void read_network_keys(TableReader& reader, NetworkConfig& network) {
    reader.read_text("fabric", network.fabric);
    reader.read_choice("topology", network.shape, {std::begin(kShapes), std::end(kShapes)});
    reader.read_whole("switches", network.switches, 1, kMaxSwitches);
    reader.read_whole("leaves", network.switches, 1, kMaxSwitches);
    reader.read_whole("spines", network.spines, 1, kMaxSwitches);
    read_rate(reader, "link_mbps", network.link_rate);
    read_delay(reader, "delay_us", network.delay_ns);
    read_rate(reader, "trunk_mbps", network.trunk_rate);
    read_delay(reader, "trunk_delay_us", network.trunk_delay_ns);
    reader.read_wholes("weights", network.weights, kMaxWeight, "of priority 0 first");
    read_priorities(reader, "pfc", network.pfc.lossless);
    read_bytes(reader, "xoff_bytes", network.pfc.xoff_bytes);
    read_bytes(reader, "xon_bytes", network.pfc.xon_bytes);
    read_bytes(reader, "headroom_bytes", network.pfc.headroom_bytes);
    if (const auto ms = reader.find_whole("watchdog_ms", 0, kMaxNetworkWatchdogMs)) {
        network.pfc.watchdog_ns = static_cast<TimeNs>(*ms) * 1'000'000;
    }
    read_bytes(reader, "buffer_bytes", network.buffer_bytes, kMinBufferBytes);
    read_subnet(reader, network.subnet);
    read_bytes(reader, "ecn_kmin_bytes", network.ecn_kmin_bytes);
    read_bytes(reader, "ecn_kmax_bytes", network.ecn_kmax_bytes);
    reader.read_number("ecn_pmax", network.ecn_pmax, 0, 1);
    reader.finish();
}

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

void read_networks(TableReader& reader, Config& config) {
    reader.read_tables("network", [&config](TableReader& entry) {
        const toml::table& table = entry.table();
        NetworkConfig network;
        read_network_keys(entry, network);
        check_fabric(table, network, config);
        check_shape(table, network, config);
        // Those of a fabric agree.
        const auto rnic = std::find_if(config.rnics.begin(), config.rnics.end(),
                                       [&](const RnicConfig& each) { return is_on(each, network.fabric); });
        check_subnet(table, network, rnic->is_infiniband, rnic->has_external_sm);
        check_marks(table, network);
        check_pauses(table, network);
        config.networks.push_back(network);
    });
}

}  // namespace urnic::daemon
