#include "rnic/wire/mad/subnet_attributes.h"

#include "rnic/wire/mad/value_names.h"

namespace urnic::wire::mad {

namespace {

using enum FieldFormat;

const char* node_type_name(std::uint64_t type) {
    return pick({nullptr, "channel adapter", "switch", "router"}, type);
}
const char* port_state_name(std::uint64_t state) {
    return pick({"no change", "Down", "Init", "Armed", "Active", "ActiveDefer"}, state);
}
const char* port_physical_state_name(std::uint64_t state) {
    return pick(
        {"no change", "Sleep", "Polling", "Disabled", "Training", "LinkUp", "LinkErrorRecovery", "PhyTest"},
        state);
}
const char* link_width_name(std::uint64_t width) {
    return pick({nullptr, "1X", "4X", nullptr, "8X", nullptr, nullptr, nullptr, "12X"}, width);
}
const char* link_speed_name(std::uint64_t speed) {
    return pick({"extended", "2.5 Gb/s", "5 Gb/s", nullptr, "10 Gb/s"}, speed);
}
const char* link_speed_ext_name(std::uint64_t speed) {
    return pick({"none", "14.0625 Gb/s", "25.78125 Gb/s", nullptr, "53.125 Gb/s", nullptr, nullptr, nullptr,
                 "106.25 Gb/s"},
                speed);
}
const char* vl_cap_name(std::uint64_t vls) {
    return pick({"no change", "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"}, vls);
}
const char* sm_state_name(std::uint64_t state) {
    return pick({"not active", "discovering", "standby", "master"}, state);
}

constexpr Field kNodeDescriptionFields[] = {
    URNIC_WIRE_FIELD(NodeDescription, text, 0, 512, kText),
};
static_assert(well_formed(kNodeDescriptionFields, 64));

constexpr Field kNodeInfoFields[] = {
    URNIC_WIRE_FIELD(NodeInfo, base_version, 0, 8, kDecimal),
    URNIC_WIRE_FIELD(NodeInfo, class_version, 8, 8, kDecimal),
    URNIC_WIRE_NAMED(NodeInfo, node_type, 16, 8, kDecimal, node_type_name),
    URNIC_WIRE_FIELD(NodeInfo, num_ports, 24, 8, kDecimal),
    URNIC_WIRE_FIELD(NodeInfo, system_image_guid, 32, 64, kHex),
    URNIC_WIRE_FIELD(NodeInfo, node_guid, 96, 64, kHex),
    URNIC_WIRE_FIELD(NodeInfo, port_guid, 160, 64, kHex),
    URNIC_WIRE_FIELD(NodeInfo, partition_cap, 224, 16, kDecimal),
    URNIC_WIRE_FIELD(NodeInfo, device_id, 240, 16, kHex),
    URNIC_WIRE_FIELD(NodeInfo, revision, 256, 32, kHex),
    URNIC_WIRE_FIELD(NodeInfo, local_port_num, 288, 8, kDecimal),
    URNIC_WIRE_FIELD(NodeInfo, vendor_id, 296, 24, kHex),
};
static_assert(well_formed(kNodeInfoFields, 40));

constexpr Field kSwitchInfoFields[] = {
    URNIC_WIRE_FIELD(SwitchInfo, linear_fdb_cap, 0, 16, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, random_fdb_cap, 16, 16, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, multicast_fdb_cap, 32, 16, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, linear_fdb_top, 48, 16, kHex),
    URNIC_WIRE_FIELD(SwitchInfo, default_port, 64, 8, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, default_multicast_primary_port, 72, 8, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, default_multicast_not_primary_port, 80, 8, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, life_time_value, 88, 5, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, port_state_change, 93, 1, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, optimized_sl_to_vl, 94, 2, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, lids_per_port, 96, 16, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, partition_enforcement_cap, 112, 16, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, inbound_enforcement, 128, 1, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, outbound_enforcement, 129, 1, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, filter_raw_inbound, 130, 1, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, filter_raw_outbound, 131, 1, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, enhanced_port0, 132, 1, kDecimal),
    URNIC_WIRE_FIELD(SwitchInfo, multicast_fdb_top, 144, 16, kHex),
};
static_assert(well_formed(kSwitchInfoFields, 20));

constexpr Field kPortInfoFields[] = {
    URNIC_WIRE_FIELD(PortInfo, m_key, 0, 64, kHex),
    URNIC_WIRE_FIELD(PortInfo, gid_prefix, 64, 64, kHex),
    URNIC_WIRE_FIELD(PortInfo, lid, 128, 16, kHex),
    URNIC_WIRE_FIELD(PortInfo, master_sm_lid, 144, 16, kHex),
    URNIC_WIRE_FIELD(PortInfo, capability_mask, 160, 32, kHex),
    URNIC_WIRE_FIELD(PortInfo, diag_code, 192, 16, kHex),
    URNIC_WIRE_FIELD(PortInfo, m_key_lease_period, 208, 16, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, local_port_num, 224, 8, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, link_width_enabled, 232, 8, kHex),
    URNIC_WIRE_FIELD(PortInfo, link_width_supported, 240, 8, kHex),
    URNIC_WIRE_NAMED(PortInfo, link_width_active, 248, 8, kDecimal, link_width_name),
    URNIC_WIRE_FIELD(PortInfo, link_speed_supported, 256, 4, kHex),
    URNIC_WIRE_NAMED(PortInfo, port_state, 260, 4, kDecimal, port_state_name),
    URNIC_WIRE_NAMED(PortInfo, port_physical_state, 264, 4, kDecimal, port_physical_state_name),
    URNIC_WIRE_NAMED(PortInfo, link_down_default_state, 268, 4, kDecimal, port_physical_state_name),
    URNIC_WIRE_FIELD(PortInfo, m_key_protect_bits, 272, 2, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, lmc, 277, 3, kDecimal),
    URNIC_WIRE_NAMED(PortInfo, link_speed_active, 280, 4, kDecimal, link_speed_name),
    URNIC_WIRE_FIELD(PortInfo, link_speed_enabled, 284, 4, kHex),
    URNIC_WIRE_NAMED(PortInfo, neighbor_mtu, 288, 4, kDecimal, mtu_name),
    URNIC_WIRE_FIELD(PortInfo, master_sm_sl, 292, 4, kDecimal),
    URNIC_WIRE_NAMED(PortInfo, vl_cap, 296, 4, kDecimal, vl_cap_name),
    URNIC_WIRE_FIELD(PortInfo, init_type, 300, 4, kHex),
    URNIC_WIRE_FIELD(PortInfo, vl_high_limit, 304, 8, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, vl_arbitration_high_cap, 312, 8, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, vl_arbitration_low_cap, 320, 8, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, init_type_reply, 328, 4, kHex),
    URNIC_WIRE_NAMED(PortInfo, mtu_cap, 332, 4, kDecimal, mtu_name),
    URNIC_WIRE_FIELD(PortInfo, vl_stall_count, 336, 3, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, hoq_life, 339, 5, kDecimal),
    URNIC_WIRE_NAMED(PortInfo, operational_vls, 344, 4, kDecimal, vl_cap_name),
    URNIC_WIRE_FIELD(PortInfo, partition_enforcement_inbound, 348, 1, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, partition_enforcement_outbound, 349, 1, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, filter_raw_inbound, 350, 1, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, filter_raw_outbound, 351, 1, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, m_key_violations, 352, 16, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, p_key_violations, 368, 16, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, q_key_violations, 384, 16, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, guid_cap, 400, 8, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, client_reregister, 408, 1, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, multicast_pkey_trap_suppression, 409, 2, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, subnet_timeout, 411, 5, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, resp_time_value, 419, 5, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, local_phy_errors, 424, 4, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, overrun_errors, 428, 4, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, max_credit_hint, 432, 16, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, link_round_trip_latency, 456, 24, kDecimal),
    URNIC_WIRE_FIELD(PortInfo, capability_mask2, 480, 16, kHex),
    URNIC_WIRE_NAMED(PortInfo, link_speed_ext_active, 496, 4, kDecimal, link_speed_ext_name),
    URNIC_WIRE_FIELD(PortInfo, link_speed_ext_supported, 500, 4, kHex),
    URNIC_WIRE_FIELD(PortInfo, link_speed_ext_enabled, 507, 5, kHex),
};
static_assert(well_formed(kPortInfoFields, 64));

constexpr Field kGuidInfoFields[] = {
    URNIC_WIRE_FIELD(GuidInfo, guids, 0, 512, kList64),
};
static_assert(well_formed(kGuidInfoFields, 64));

constexpr Field kPkeyBlockFields[] = {
    URNIC_WIRE_FIELD(PkeyBlock, pkeys, 0, 512, kList16),
};
static_assert(well_formed(kPkeyBlockFields, 64));

constexpr Field kSlToVlMappingFields[] = {
    URNIC_WIRE_FIELD(SlToVlMapping, sl0, 0, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl1, 4, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl2, 8, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl3, 12, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl4, 16, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl5, 20, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl6, 24, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl7, 28, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl8, 32, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl9, 36, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl10, 40, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl11, 44, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl12, 48, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl13, 52, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl14, 56, 4, kDecimal),
    URNIC_WIRE_FIELD(SlToVlMapping, sl15, 60, 4, kDecimal),
};
static_assert(well_formed(kSlToVlMappingFields, 8));

constexpr Field kVlArbitrationFields[] = {
    URNIC_WIRE_FIELD(VlArbitration, vl_and_weight, 0, 512, kList16),
};
static_assert(well_formed(kVlArbitrationFields, 64));

constexpr Field kLinearForwardingFields[] = {
    URNIC_WIRE_FIELD(LinearForwarding, ports, 0, 512, kList8),
};
static_assert(well_formed(kLinearForwardingFields, 64));

constexpr Field kRandomForwardingFields[] = {
    URNIC_WIRE_FIELD(RandomForwarding, entries, 0, 512, kBytes),
};
static_assert(well_formed(kRandomForwardingFields, 64));

constexpr Field kMulticastForwardingFields[] = {
    URNIC_WIRE_FIELD(MulticastForwarding, port_masks, 0, 512, kList16),
};
static_assert(well_formed(kMulticastForwardingFields, 64));

constexpr Field kSmInfoFields[] = {
    URNIC_WIRE_FIELD(SmInfo, guid, 0, 64, kHex),
    URNIC_WIRE_FIELD(SmInfo, sm_key, 64, 64, kHex),
    URNIC_WIRE_FIELD(SmInfo, act_count, 128, 32, kDecimal),
    URNIC_WIRE_FIELD(SmInfo, priority, 160, 4, kDecimal),
    URNIC_WIRE_NAMED(SmInfo, sm_state, 164, 4, kDecimal, sm_state_name),
};
static_assert(well_formed(kSmInfoFields, 21));

constexpr Field kNoticeFields[] = {
    URNIC_WIRE_FIELD(Notice, is_generic, 0, 1, kDecimal),
    URNIC_WIRE_NAMED(Notice, type, 1, 7, kDecimal, notice_type_name),
    URNIC_WIRE_NAMED(Notice, producer_type, 8, 24, kDecimal, producer_type_name),
    URNIC_WIRE_NAMED(Notice, trap_number, 32, 16, kDecimal, trap_name),
    URNIC_WIRE_FIELD(Notice, issuer_lid, 48, 16, kHex),
    URNIC_WIRE_FIELD(Notice, notice_toggle, 64, 1, kDecimal),
    URNIC_WIRE_FIELD(Notice, notice_count, 65, 15, kDecimal),
    URNIC_WIRE_FIELD(Notice, data_details, 80, 432, kBytes),
};
static_assert(well_formed(kNoticeFields, 64));

}  // namespace

const HeaderTable kNodeDescriptionTable = {"NodeDescription", 64, kNodeDescriptionFields};
const HeaderTable kNodeInfoTable = {"NodeInfo", 40, kNodeInfoFields};
const HeaderTable kSwitchInfoTable = {"SwitchInfo", 20, kSwitchInfoFields};
const HeaderTable kPortInfoTable = {"PortInfo", 64, kPortInfoFields};
const HeaderTable kGuidInfoTable = {"GUIDInfo", 64, kGuidInfoFields};
const HeaderTable kPkeyBlockTable = {"P_KeyTable", 64, kPkeyBlockFields};
const HeaderTable kSlToVlMappingTable = {"SLtoVLMappingTable", 8, kSlToVlMappingFields};
const HeaderTable kVlArbitrationTable = {"VLArbitrationTable", 64, kVlArbitrationFields};
const HeaderTable kLinearForwardingTable = {"LinearForwardingTable", 64, kLinearForwardingFields};
const HeaderTable kRandomForwardingTable = {"RandomForwardingTable", 64, kRandomForwardingFields};
const HeaderTable kMulticastForwardingTable = {"MulticastForwardingTable", 64, kMulticastForwardingFields};
const HeaderTable kSmInfoTable = {"SMInfo", 21, kSmInfoFields};
const HeaderTable kNoticeTable = {"Notice", 64, kNoticeFields};

}  // namespace urnic::wire::mad
