#include "daemon/config/subnets.h"

#include <fmt/format.h>

#include "netsim/infiniband/credits.h"

namespace urnic::daemon {

namespace {

constexpr const char* kSubnetKeys[] = {"lmc",         "vls",           "sl_to_vl",        "vl_high",
                                       "vl_low",      "vl_high_limit", "vl_buffer_bytes", "hoq_life",
                                       "switch_life", "idle_hosts"};
constexpr const char* kEthernetKeys[] = {"weights",        "pfc",         "xoff_bytes",   "xon_bytes",
                                         "headroom_bytes", "watchdog_ms", "buffer_bytes", "ecn_kmin_bytes",
                                         "ecn_kmax_bytes", "ecn_pmax"};
constexpr std::int64_t kLargestLmc = 7;
constexpr std::int64_t kLargestLife = 31;  // five bits; from 20 on without end (IBA 14.2.5.6)
constexpr std::int64_t kDroppingVl = 15;
// With 64 RNICs, and cables to 64 other switches, 254 ports (IBA 14.2.5.3).
constexpr std::int64_t kMostIdleHosts = 126;
// Of the longest packet, and of what credits can count.
constexpr std::int64_t kLeastVlBuffer = 4'224;
constexpr std::int64_t kMostVlBuffer = std::int64_t{netsim::kMostCreditBlocks} * netsim::kCreditBlockBytes;

std::uint8_t get_byte(const toml::node& node, const std::string& key, std::int64_t most) {
    return static_cast<std::uint8_t>(get_int(node, key, 0, most));
}

netsim::VlArbiter::Table read_arbitration(const toml::node& node, const std::string& key) {
    netsim::VlArbiter::Table table{};
    const auto* const list = node.as_array();
    const std::string allowed = fmt::format(
        "'{}' must be a list of at most {} pairs of a VL from 0 to 14 and a weight from 0 to 255 in 64 "
        "bytes, for example [[0, 64], [1, 192]]",
        key, table.size());
    if (list == nullptr || list->size() > table.size()) {
        throw_at(node, allowed);
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
        const auto* const pair = (*list)[i].as_array();
        if (pair == nullptr || pair->size() != 2) {
            throw_at((*list)[i], allowed);
        }
        table[i] = {get_byte((*pair)[0], key, netsim::kDataVls - 1), get_byte((*pair)[1], key, 255)};
    }
    return table;
}

}  // namespace

void set_lmc(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.lmc = get_byte(node, key, kLargestLmc);
}

void set_vls(NetworkConfig& network, const toml::node& node, const std::string& key) {
    const auto vls = get_int(node, key, 1, netsim::kDataVls);
    if (vls != 1 && vls != 2 && vls != 4 && vls != 8 && vls != 15) {
        throw_at(node, fmt::format("'{}' must be 1, 2, 4, 8 or 15", key));
    }
    network.subnet.vls = static_cast<std::uint8_t>(vls);
}

void set_sl_to_vl(NetworkConfig& network, const toml::node& node, const std::string& key) {
    const auto* const list = node.as_array();
    if (list == nullptr || list->size() != netsim::kSls) {
        throw_at(node, fmt::format("'{}' must be a list of {} VLs, of SL 0 first; 15 drops the packets", key,
                                   netsim::kSls));
    }
    auto& table = network.subnet.sl_to_vl.emplace();
    for (std::size_t sl = 0; sl < table.size(); ++sl) {
        table[sl] = get_byte((*list)[sl], key, kDroppingVl);
    }
}

void set_vl_high(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.vl_high = read_arbitration(node, key);
}

void set_vl_low(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.vl_low = read_arbitration(node, key);
}

void set_vl_high_limit(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.vl_high_limit = get_byte(node, key, 255);
}

void set_vl_buffer(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.vl_buffer_bytes =
        static_cast<std::uint32_t>(get_int(node, key, kLeastVlBuffer, kMostVlBuffer));
}

void set_hoq_life(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.hoq_life = get_byte(node, key, kLargestLife);
}

void set_switch_life(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.switch_life = get_byte(node, key, kLargestLife);
}

void set_idle_hosts(NetworkConfig& network, const toml::node& node, const std::string& key) {
    network.subnet.idle_hosts = get_byte(node, key, kMostIdleHosts);
}

void check_subnet(const toml::table& table, NetworkConfig& network, bool is_infiniband,
                  bool has_external_sm) {
    const auto refuse = [&](const char* key, const char* link_layer) {
        if (const toml::node* const node = table.get(key)) {
            throw_at(*node, fmt::format("'{}' is for RNICs with link_layer = \"{}\", which those of the "
                                        "fabric \"{}\" are not: leave it out",
                                        key, link_layer, network.fabric));
        }
    };
    for (const char* key : kSubnetKeys) {
        if (!is_infiniband) {
            refuse(key, "infiniband");
        }
    }
    for (const char* key : kEthernetKeys) {
        if (is_infiniband) {
            refuse(key, "ethernet");
        }
    }
    const SubnetConfig& subnet = network.subnet;
    if (subnet.idle_hosts != 0 && !has_external_sm) {
        throw_at(*table.get("idle_hosts"),
                 "'idle_hosts' are for a subnet manager to find: it goes with subnet_manager = \"external\" "
                 "of the [[rnic]]s");
    }
    for (const std::uint8_t vl : subnet.sl_to_vl.value_or(std::array<std::uint8_t, netsim::kSls>{})) {
        if (vl != kDroppingVl && vl >= subnet.vls) {
            throw_at(table, fmt::format("'sl_to_vl' names VL {}, but there are VLs 0 to {} ('vls')", vl,
                                        subnet.vls - 1));
        }
    }
}

}  // namespace urnic::daemon
