// Attributes of performance management (IBA 16.1.3), and ClassPortInfo, which every class has.
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire::mad {

/// Attribute IDs (IBA table 231).
enum PerformanceAttribute : std::uint16_t { kPortCounters = 0x0012, kPortCountersExtended = 0x001d };
/// Where the data of a performance or vendor MAD with a reserved area begins (IBA 16.1.1).
inline constexpr std::size_t kPerformanceDataOffset = 64;

/// IBA 13.4.8.1, of every class.
struct ClassPortInfo {
    std::uint8_t base_version = 0;
    std::uint8_t class_version = 0;
    std::uint16_t capability_mask = 0;
    std::uint32_t capability_mask2 = 0;
    std::uint8_t resp_time_value = 0;  // 4.096 us * 2^n
    Gid redirect_gid{};
    std::uint8_t redirect_tclass = 0;
    std::uint8_t redirect_sl = 0;
    std::uint32_t redirect_flow_label = 0;
    std::uint16_t redirect_lid = 0;
    std::uint16_t redirect_pkey = 0;
    std::uint32_t redirect_qpn = 0;
    std::uint32_t redirect_qkey = 0;
    Gid trap_gid{};
    std::uint8_t trap_tclass = 0;
    std::uint8_t trap_sl = 0;
    std::uint32_t trap_flow_label = 0;
    std::uint16_t trap_lid = 0;
    std::uint16_t trap_pkey = 0;
    std::uint8_t trap_hop_limit = 0;
    std::uint32_t trap_qpn = 0;
    std::uint32_t trap_qkey = 0;
    bool operator==(const ClassPortInfo&) const = default;
};
extern const HeaderTable kClassPortInfoTable;

/// IBA 16.1.3.5. They stop at their largest value.
struct PortCounters {
    std::uint8_t port_select = 0;
    std::uint16_t counter_select = 0;  // a bit for each counter that a Set writes
    std::uint16_t symbol_error_counter = 0;
    std::uint8_t link_error_recovery_counter = 0;
    std::uint8_t link_downed_counter = 0;
    std::uint16_t port_rcv_errors = 0;
    std::uint16_t port_rcv_remote_physical_errors = 0;
    std::uint16_t port_rcv_switch_relay_errors = 0;
    std::uint16_t port_xmit_discards = 0;
    std::uint8_t port_xmit_constraint_errors = 0;
    std::uint8_t port_rcv_constraint_errors = 0;
    std::uint8_t counter_select2 = 0;
    std::uint8_t local_link_integrity_errors = 0;
    std::uint8_t excessive_buffer_overrun_errors = 0;
    std::uint16_t qp1_dropped = 0;
    std::uint16_t vl15_dropped = 0;
    std::uint32_t port_xmit_data = 0;  // units of four octets
    std::uint32_t port_rcv_data = 0;
    std::uint32_t port_xmit_pkts = 0;
    std::uint32_t port_rcv_pkts = 0;
    std::uint32_t port_xmit_wait = 0;
    bool operator==(const PortCounters&) const = default;
};
extern const HeaderTable kPortCountersTable;

/// IBA 16.1.4.11.
struct PortCountersExtended {
    std::uint8_t port_select = 0;
    std::uint16_t counter_select = 0;
    std::uint64_t port_xmit_data = 0;  // units of four octets
    std::uint64_t port_rcv_data = 0;
    std::uint64_t port_xmit_pkts = 0;
    std::uint64_t port_rcv_pkts = 0;
    std::uint64_t port_unicast_xmit_pkts = 0;
    std::uint64_t port_unicast_rcv_pkts = 0;
    std::uint64_t port_multicast_xmit_pkts = 0;
    std::uint64_t port_multicast_rcv_pkts = 0;
    bool operator==(const PortCountersExtended&) const = default;
};
extern const HeaderTable kPortCountersExtendedTable;

}  // namespace urnic::wire::mad
