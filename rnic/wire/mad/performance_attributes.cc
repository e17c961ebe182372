#include "rnic/wire/mad/performance_attributes.h"

namespace urnic::wire::mad {

namespace {

using enum FieldFormat;

constexpr Field kClassPortInfoFields[] = {
    URNIC_WIRE_FIELD(ClassPortInfo, base_version, 0, 8, kDecimal),
    URNIC_WIRE_FIELD(ClassPortInfo, class_version, 8, 8, kDecimal),
    URNIC_WIRE_FIELD(ClassPortInfo, capability_mask, 16, 16, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, capability_mask2, 32, 27, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, resp_time_value, 59, 5, kDecimal),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_gid, 64, 128, kGid),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_tclass, 192, 8, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_sl, 200, 4, kDecimal),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_flow_label, 204, 20, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_lid, 224, 16, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_pkey, 240, 16, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_qpn, 264, 24, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, redirect_qkey, 288, 32, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_gid, 320, 128, kGid),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_tclass, 448, 8, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_sl, 456, 4, kDecimal),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_flow_label, 460, 20, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_lid, 480, 16, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_pkey, 496, 16, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_hop_limit, 512, 8, kDecimal),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_qpn, 520, 24, kHex),
    URNIC_WIRE_FIELD(ClassPortInfo, trap_qkey, 544, 32, kHex),
};
static_assert(well_formed(kClassPortInfoFields, 72));

constexpr Field kPortCountersFields[] = {
    URNIC_WIRE_FIELD(PortCounters, port_select, 8, 8, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, counter_select, 16, 16, kHex),
    URNIC_WIRE_FIELD(PortCounters, symbol_error_counter, 32, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, link_error_recovery_counter, 48, 8, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, link_downed_counter, 56, 8, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_rcv_errors, 64, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_rcv_remote_physical_errors, 80, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_rcv_switch_relay_errors, 96, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_xmit_discards, 112, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_xmit_constraint_errors, 128, 8, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_rcv_constraint_errors, 136, 8, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, counter_select2, 144, 8, kHex),
    URNIC_WIRE_FIELD(PortCounters, local_link_integrity_errors, 152, 4, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, excessive_buffer_overrun_errors, 156, 4, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, qp1_dropped, 160, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, vl15_dropped, 176, 16, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_xmit_data, 192, 32, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_rcv_data, 224, 32, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_xmit_pkts, 256, 32, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_rcv_pkts, 288, 32, kDecimal),
    URNIC_WIRE_FIELD(PortCounters, port_xmit_wait, 320, 32, kDecimal),
};
static_assert(well_formed(kPortCountersFields, 44));

constexpr Field kPortCountersExtendedFields[] = {
    URNIC_WIRE_FIELD(PortCountersExtended, port_select, 8, 8, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, counter_select, 16, 16, kHex),
    URNIC_WIRE_FIELD(PortCountersExtended, port_xmit_data, 64, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_rcv_data, 128, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_xmit_pkts, 192, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_rcv_pkts, 256, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_unicast_xmit_pkts, 320, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_unicast_rcv_pkts, 384, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_multicast_xmit_pkts, 448, 64, kDecimal),
    URNIC_WIRE_FIELD(PortCountersExtended, port_multicast_rcv_pkts, 512, 64, kDecimal),
};
static_assert(well_formed(kPortCountersExtendedFields, 72));

}  // namespace

const HeaderTable kClassPortInfoTable = {"ClassPortInfo", 72, kClassPortInfoFields};
const HeaderTable kPortCountersTable = {"PortCounters", 44, kPortCountersFields};
const HeaderTable kPortCountersExtendedTable = {"PortCountersExtended", 72, kPortCountersExtendedFields};

}  // namespace urnic::wire::mad
