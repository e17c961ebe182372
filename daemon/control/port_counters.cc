#include "daemon/control/port_counters.h"

#include "rnic/device/counters.h"

namespace urnic::daemon {

namespace {

/// PortXmitData and PortRcvData count words of four octets.
constexpr std::uint64_t kDataUnitBytes = 4;

}  // namespace

std::map<std::string, std::uint64_t> sum_counters(const dataplane::Device& device,
                                                  std::uint32_t num_workers) {
    std::map<std::string, std::uint64_t> sums;
    for (std::uint32_t w = 0; w < num_workers; ++w) {
        for_each_counter(device.counters[w],
                         [&](const char* name, std::uint64_t value) { sums[name] += value; });
    }
    return sums;
}

std::vector<PortCounter> port_counters(const std::map<std::string, std::uint64_t>& sums) {
    const auto of = [&sums](const char* name) { return sums.at(name); };
    const std::uint64_t sent = of("sent_pkts");
    const std::uint64_t received = of("rcvd_pkts");
    const std::uint64_t sent_multicast = of("sent_multicast_pkts");
    const std::uint64_t received_multicast = of("rcvd_multicast_pkts");
    return {
        {"port_xmit_data", of("sent_bytes") / kDataUnitBytes},
        {"port_rcv_data", of("rcvd_bytes") / kDataUnitBytes},
        {"port_xmit_packets", sent},
        {"port_rcv_packets", received},
        // A worker counts a packet and then what it is: between the two it may be read.
        {"unicast_xmit_packets", sent > sent_multicast ? sent - sent_multicast : 0},
        {"unicast_rcv_packets", received > received_multicast ? received - received_multicast : 0},
        {"multicast_xmit_packets", sent_multicast},
        {"multicast_rcv_packets", received_multicast},
        // Damaged, malformed, or no room for them (IBA 16.1.3.5, PortRcvErrors).
        {"port_rcv_errors", of("drop_malformed") + of("rx_icrc_encapsulated") + of("drop_steering_full")},
        // The port is down, or cannot take them, or nobody answers for where they go.
        {"port_xmit_discards", of("drop_tx_full") + of("drop_no_neighbour") + of("xmit_discard_port_down")},
        {"port_xmit_wait", of("xmit_wait_ns")},
        {"link_downed", of("link_downed")},
        {"symbol_error", 0},
        {"link_error_recovery", 0},
        {"port_rcv_remote_physical_errors", 0},
        {"port_rcv_switch_relay_errors", 0},
        {"port_xmit_constraint_errors", 0},
        {"port_rcv_constraint_errors", 0},
        {"local_link_integrity_errors", 0},
        {"excessive_buffer_overrun_errors", 0},
        {"VL15_dropped", 0},
    };
}

}  // namespace urnic::daemon
