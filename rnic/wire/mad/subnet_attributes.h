// Attributes of subnet management (IBA 14.2.5), 64 octets of data of an SMP.
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"

namespace urnic::wire::mad {

/// Attribute IDs (IBA table 125).
enum SubnetAttribute : std::uint16_t {
    kNodeDescription = 0x0010,
    kNodeInfo = 0x0011,
    kSwitchInfo = 0x0012,
    kGuidInfo = 0x0014,
    kPortInfo = 0x0015,
    kPkeyTable = 0x0016,
    kSlToVlMapping = 0x0017,
    kVlArbitration = 0x0018,
    kLinearForwarding = 0x0019,
    kRandomForwarding = 0x001a,
    kMulticastForwarding = 0x001b,
    kSmInfo = 0x0020,
};

enum NodeType : std::uint8_t { kChannelAdapter = 1, kSwitch = 2, kRouter = 3 };
/// PortInfo:PortState (IBA 14.2.5.6).
enum PortState : std::uint8_t { kNoChange = 0, kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };
enum PortPhysicalState : std::uint8_t { kSleep = 1, kPolling = 2, kDisabled = 3, kTraining = 4, kLinkUp = 5 };

/// IBA 14.2.5.2.
struct NodeDescription {
    std::array<std::uint8_t, 64> text{};
    bool operator==(const NodeDescription&) const = default;
};
extern const HeaderTable kNodeDescriptionTable;

/// IBA 14.2.5.3.
struct NodeInfo {
    std::uint8_t base_version = 0;
    std::uint8_t class_version = 0;
    std::uint8_t node_type = 0;
    std::uint8_t num_ports = 0;
    std::uint64_t system_image_guid = 0;
    std::uint64_t node_guid = 0;
    std::uint64_t port_guid = 0;      // of a switch the node's own
    std::uint16_t partition_cap = 0;  // entries of the P_Key table of each port
    std::uint16_t device_id = 0;
    std::uint32_t revision = 0;
    std::uint8_t local_port_num = 0;  // that the request came through
    std::uint32_t vendor_id = 0;
    bool operator==(const NodeInfo&) const = default;
};
extern const HeaderTable kNodeInfoTable;

/// IBA 14.2.5.4.
struct SwitchInfo {
    std::uint16_t linear_fdb_cap = 0;  // LIDs
    std::uint16_t random_fdb_cap = 0;
    std::uint16_t multicast_fdb_cap = 0;  // MLIDs
    std::uint16_t linear_fdb_top = 0;     // the largest LID that is forwarded
    std::uint8_t default_port = 0;
    std::uint8_t default_multicast_primary_port = 0;
    std::uint8_t default_multicast_not_primary_port = 0;
    std::uint8_t life_time_value = 0;  // 4.096 us * 2^n; from 20 on without limit
    bool port_state_change = false;
    std::uint8_t optimized_sl_to_vl = 0;
    std::uint16_t lids_per_port = 0;
    std::uint16_t partition_enforcement_cap = 0;
    bool inbound_enforcement = false;
    bool outbound_enforcement = false;
    bool filter_raw_inbound = false;
    bool filter_raw_outbound = false;
    bool enhanced_port0 = false;
    std::uint16_t multicast_fdb_top = 0;
    bool operator==(const SwitchInfo&) const = default;
};
extern const HeaderTable kSwitchInfoTable;

/// IBA 14.2.5.6.
struct PortInfo {
    std::uint64_t m_key = 0;
    std::uint64_t gid_prefix = 0;
    std::uint16_t lid = 0;
    std::uint16_t master_sm_lid = 0;
    std::uint32_t capability_mask = 0;
    std::uint16_t diag_code = 0;
    std::uint16_t m_key_lease_period = 0;  // seconds; 0: for ever
    std::uint8_t local_port_num = 0;       // that the request came through
    std::uint8_t link_width_enabled = 0;
    std::uint8_t link_width_supported = 0;
    std::uint8_t link_width_active = 0;
    std::uint8_t link_speed_supported = 0;
    std::uint8_t port_state = 0;
    std::uint8_t port_physical_state = 0;
    std::uint8_t link_down_default_state = 0;
    std::uint8_t m_key_protect_bits = 0;
    std::uint8_t lmc = 0;
    std::uint8_t link_speed_active = 0;
    std::uint8_t link_speed_enabled = 0;
    std::uint8_t neighbor_mtu = 0;
    std::uint8_t master_sm_sl = 0;
    std::uint8_t vl_cap = 0;
    std::uint8_t init_type = 0;
    std::uint8_t vl_high_limit = 0;
    std::uint8_t vl_arbitration_high_cap = 0;
    std::uint8_t vl_arbitration_low_cap = 0;
    std::uint8_t init_type_reply = 0;
    std::uint8_t mtu_cap = 0;
    std::uint8_t vl_stall_count = 0;
    std::uint8_t hoq_life = 0;
    std::uint8_t operational_vls = 0;
    bool partition_enforcement_inbound = false;
    bool partition_enforcement_outbound = false;
    bool filter_raw_inbound = false;
    bool filter_raw_outbound = false;
    std::uint16_t m_key_violations = 0;
    std::uint16_t p_key_violations = 0;
    std::uint16_t q_key_violations = 0;
    std::uint8_t guid_cap = 0;
    bool client_reregister = false;
    std::uint8_t multicast_pkey_trap_suppression = 0;
    std::uint8_t subnet_timeout = 0;   // 4.096 us * 2^n
    std::uint8_t resp_time_value = 0;  // 4.096 us * 2^n
    std::uint8_t local_phy_errors = 0;
    std::uint8_t overrun_errors = 0;
    std::uint16_t max_credit_hint = 0;
    std::uint32_t link_round_trip_latency = 0;
    std::uint16_t capability_mask2 = 0;
    std::uint8_t link_speed_ext_active = 0;
    std::uint8_t link_speed_ext_supported = 0;
    std::uint8_t link_speed_ext_enabled = 0;
    bool operator==(const PortInfo&) const = default;
};
extern const HeaderTable kPortInfoTable;

/// IBA 14.2.5.5: block of eight; entry 0 of block 0 is the port GUID.
struct GuidInfo {
    std::array<std::uint8_t, 64> guids{};
    bool operator==(const GuidInfo&) const = default;
};
extern const HeaderTable kGuidInfoTable;

/// IBA 14.2.5.7: block of 32.
struct PkeyBlock {
    std::array<std::uint8_t, 64> pkeys{};
    bool operator==(const PkeyBlock&) const = default;
};
extern const HeaderTable kPkeyBlockTable;

/// IBA 14.2.5.8: a VL of four bits for each SL.
struct SlToVlMapping {
    std::uint8_t sl0 = 0;
    std::uint8_t sl1 = 0;
    std::uint8_t sl2 = 0;
    std::uint8_t sl3 = 0;
    std::uint8_t sl4 = 0;
    std::uint8_t sl5 = 0;
    std::uint8_t sl6 = 0;
    std::uint8_t sl7 = 0;
    std::uint8_t sl8 = 0;
    std::uint8_t sl9 = 0;
    std::uint8_t sl10 = 0;
    std::uint8_t sl11 = 0;
    std::uint8_t sl12 = 0;
    std::uint8_t sl13 = 0;
    std::uint8_t sl14 = 0;
    std::uint8_t sl15 = 0;
    bool operator==(const SlToVlMapping&) const = default;
};
extern const HeaderTable kSlToVlMappingTable;

/// IBA 14.2.5.9: 32 pairs of VL (low four bits of the first octet) and weight in units of 64 bytes.
struct VlArbitration {
    std::array<std::uint8_t, 64> vl_and_weight{};
    bool operator==(const VlArbitration&) const = default;
};
extern const HeaderTable kVlArbitrationTable;

/// IBA 14.2.5.10: block of 64, the port of each LID; 255: none.
struct LinearForwarding {
    std::array<std::uint8_t, 64> ports{};
    bool operator==(const LinearForwarding&) const = default;
};
extern const HeaderTable kLinearForwardingTable;

/// IBA 14.2.5.11: block of 16: LID, valid and LMC, port.
struct RandomForwarding {
    std::array<std::uint8_t, 64> entries{};
    bool operator==(const RandomForwarding&) const = default;
};
extern const HeaderTable kRandomForwardingTable;

/// IBA 14.2.5.12: block of 32, for each MLID a mask of 16 ports.
struct MulticastForwarding {
    std::array<std::uint8_t, 64> port_masks{};
    bool operator==(const MulticastForwarding&) const = default;
};
extern const HeaderTable kMulticastForwardingTable;

/// IBA 14.2.5.13.
struct SmInfo {
    std::uint64_t guid = 0;
    std::uint64_t sm_key = 0;
    std::uint32_t act_count = 0;
    std::uint8_t priority = 0;
    std::uint8_t sm_state = 0;
    bool operator==(const SmInfo&) const = default;
};
extern const HeaderTable kSmInfoTable;

/// IBA 13.4.8.2.
struct Notice {
    bool is_generic = false;
    std::uint8_t type = 0;
    std::uint32_t producer_type = 0;
    std::uint16_t trap_number = 0;
    std::uint16_t issuer_lid = 0;
    bool notice_toggle = false;
    std::uint16_t notice_count = 0;
    std::array<std::uint8_t, 54> data_details{};
    bool operator==(const Notice&) const = default;
};
extern const HeaderTable kNoticeTable;

}  // namespace urnic::wire::mad
