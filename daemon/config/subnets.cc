#include "daemon/config/subnets.h"

#include <fmt/format.h>

#include <bit>

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

constexpr const char* kArbitration =
    "a VL from 0 to 14 and a weight from 0 to 255 in 64 bytes, for example [[0, 64], [1, 192]]";

}  // namespace

void read_subnet(TableReader& reader, SubnetConfig& subnet) {
    reader.read_whole("lmc", subnet.lmc, 0, kLargestLmc);
    reader.read_whole("vls", subnet.vls, 1, netsim::kDataVls);
    if (!std::has_single_bit(subnet.vls) && subnet.vls != netsim::kDataVls) {
        reader.fail("vls", "must be 1, 2, 4, 8 or 15");
    }
    reader.read_wholes("sl_to_vl", subnet.sl_to_vl, kDroppingVl, "of SL 0 first; 15 drops the packets");
    reader.read_pairs("vl_high", subnet.vl_high, netsim::kDataVls - 1, 255, kArbitration);
    reader.read_pairs("vl_low", subnet.vl_low, netsim::kDataVls - 1, 255, kArbitration);
    reader.read_whole("vl_high_limit", subnet.vl_high_limit, 0, 255);
    reader.read_whole("vl_buffer_bytes", subnet.vl_buffer_bytes, kLeastVlBuffer, kMostVlBuffer);
    reader.read_whole("hoq_life", subnet.hoq_life, 0, kLargestLife);
    reader.read_whole("switch_life", subnet.switch_life, 0, kLargestLife);
    reader.read_whole("idle_hosts", subnet.idle_hosts, 0, kMostIdleHosts);
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
