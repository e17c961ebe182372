// Subnet administration (IBA 15): RMPP, its header, its records.
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/fields.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire::mad {

/// RMPPType.
enum RmppType : std::uint8_t { kRmppNone = 0, kRmppData = 1, kRmppAck = 2, kRmppStop = 3, kRmppAbort = 4 };
enum RmppFlags : std::uint8_t { kRmppActive = 1, kRmppFirst = 2, kRmppLast = 4 };
/// Where RMPP's header, the class's own and the data begin in a MAD of subnet administration (IBA 15.2.1).
inline constexpr std::size_t kRmppOffset = 24;
inline constexpr std::size_t kSaHeaderOffset = 36;
inline constexpr std::size_t kSaDataOffset = 56;

/// Attribute IDs (IBA 15.2.5).
enum AdministrationAttribute : std::uint16_t {
    kClassPortInfo = 0x0001,
    kNotice = 0x0002,
    kInformInfo = 0x0003,
    kNodeRecord = 0x0011,
    kPortInfoRecord = 0x0012,
    kSmInfoRecord = 0x0018,
    kPathRecord = 0x0035,
    kMcMemberRecord = 0x0038,
    kInformInfoRecord = 0x00f3,
};

/// The reliable multi-packet protocol's header (IBA 13.6.2.1).
struct Rmpp {
    std::uint8_t version = 0;
    std::uint8_t type = 0;
    std::uint8_t resp_time = 0;
    std::uint8_t flags = 0;  // 1 active, 2 first, 4 last
    std::uint8_t status = 0;
    std::uint32_t data1 = 0;  // DATA: segment; ACK: the last one received
    std::uint32_t data2 = 0;  // DATA: octets of payload; ACK: the last one that may come
    bool operator==(const Rmpp&) const = default;
};
extern const HeaderTable kRmppTable;

/// Subnet administration's own header (IBA 15.2.1.1), behind RMPP.
struct SaHeader {
    std::uint64_t sm_key = 0;
    std::uint16_t attribute_offset = 0;  // units of eight octets: from one record to the next
    std::uint64_t component_mask = 0;
    bool operator==(const SaHeader&) const = default;
};
extern const HeaderTable kSaHeaderTable;

/// What a record of a node's or switch's attribute begins with.
struct LidRecord {
    std::uint16_t lid = 0;
    bool operator==(const LidRecord&) const = default;
};
extern const HeaderTable kLidRecordTable;

/// And that of a port's.
struct PortRecord {
    std::uint16_t lid = 0;
    std::uint8_t port = 0;
    std::uint8_t options = 0;
    bool operator==(const PortRecord&) const = default;
};
extern const HeaderTable kPortRecordTable;

/// SLtoVLMappingTableRecord: two ports. VLArbitrationRecord: port and block.
struct TwoPortRecord {
    std::uint16_t lid = 0;
    std::uint8_t input_port = 0;
    std::uint8_t output_port = 0;
    bool operator==(const TwoPortRecord&) const = default;
};
extern const HeaderTable kTwoPortRecordTable;

/// LinearForwardingTableRecord.
struct BlockRecord {
    std::uint16_t lid = 0;
    std::uint16_t block = 0;
    bool operator==(const BlockRecord&) const = default;
};
extern const HeaderTable kBlockRecordTable;

/// MulticastForwardingTableRecord.
struct MulticastBlockRecord {
    std::uint16_t lid = 0;
    std::uint8_t position = 0;
    std::uint16_t block = 0;
    bool operator==(const MulticastBlockRecord&) const = default;
};
extern const HeaderTable kMulticastBlockRecordTable;

/// P_KeyTableRecord.
struct PkeyBlockRecord {
    std::uint16_t lid = 0;
    std::uint16_t block = 0;
    std::uint8_t port = 0;
    bool operator==(const PkeyBlockRecord&) const = default;
};
extern const HeaderTable kPkeyBlockRecordTable;

/// GUIDInfoRecord.
struct GuidBlockRecord {
    std::uint16_t lid = 0;
    std::uint8_t block = 0;
    bool operator==(const GuidBlockRecord&) const = default;
};
extern const HeaderTable kGuidBlockRecordTable;

/// IBA 15.2.5.13.
struct LinkRecord {
    std::uint16_t from_lid = 0;
    std::uint8_t from_port = 0;
    std::uint8_t to_port = 0;
    std::uint16_t to_lid = 0;
    bool operator==(const LinkRecord&) const = default;
};
extern const HeaderTable kLinkRecordTable;

/// IBA 15.2.5.14.
struct ServiceRecord {
    std::uint64_t service_id = 0;
    Gid service_gid{};
    std::uint16_t service_pkey = 0;
    std::uint32_t service_lease = 0;  // seconds
    std::array<std::uint8_t, 16> service_key{};
    std::array<std::uint8_t, 64> service_name{};
    std::array<std::uint8_t, 64> service_data{};
    bool operator==(const ServiceRecord&) const = default;
};
extern const HeaderTable kServiceRecordTable;

/// IBA 15.2.5.16.
struct PathRecord {
    std::uint64_t service_id = 0;
    Gid dgid{};
    Gid sgid{};
    std::uint16_t dlid = 0;
    std::uint16_t slid = 0;
    bool raw_traffic = false;
    std::uint32_t flow_label = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t tclass = 0;
    bool reversible = false;
    std::uint8_t numb_path = 0;
    std::uint16_t pkey = 0;
    std::uint16_t qos_class = 0;
    std::uint8_t sl = 0;
    std::uint8_t mtu_selector = 0;
    std::uint8_t mtu = 0;
    std::uint8_t rate_selector = 0;
    std::uint8_t rate = 0;
    std::uint8_t packet_life_time_selector = 0;
    std::uint8_t packet_life_time = 0;
    std::uint8_t preference = 0;
    bool operator==(const PathRecord&) const = default;
};
extern const HeaderTable kPathRecordTable;

/// IBA 15.2.5.17.
struct McMemberRecord {
    Gid mgid{};
    Gid port_gid{};
    std::uint32_t qkey = 0;
    std::uint16_t mlid = 0;
    std::uint8_t mtu_selector = 0;
    std::uint8_t mtu = 0;
    std::uint8_t tclass = 0;
    std::uint16_t pkey = 0;
    std::uint8_t rate_selector = 0;
    std::uint8_t rate = 0;
    std::uint8_t packet_life_time_selector = 0;
    std::uint8_t packet_life_time = 0;
    std::uint8_t sl = 0;
    std::uint32_t flow_label = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t scope = 0;
    std::uint8_t join_state = 0;
    bool proxy_join = false;
    bool operator==(const McMemberRecord&) const = default;
};
extern const HeaderTable kMcMemberRecordTable;

/// IBA 13.4.8.3.
struct InformInfo {
    Gid gid{};
    std::uint16_t lid_range_begin = 0;
    std::uint16_t lid_range_end = 0;
    std::uint8_t is_generic = 0;
    std::uint8_t subscribe = 0;
    std::uint16_t type = 0;
    std::uint16_t trap_number = 0;
    std::uint32_t qpn = 0;
    std::uint8_t resp_time_value = 0;
    std::uint32_t producer_type = 0;
    bool operator==(const InformInfo&) const = default;
};
extern const HeaderTable kInformInfoTable;

/// What an InformInfoRecord begins with (IBA 15.2.5.12).
struct SubscriberRecord {
    Gid subscriber_gid{};
    std::uint16_t subscriber_enum = 0;
    bool operator==(const SubscriberRecord&) const = default;
};
extern const HeaderTable kSubscriberRecordTable;

/// Behind a Notice that subnet administration reports: SMPs have no room for it (IBA 13.4.8.2).
struct NoticeIssuer {
    Gid issuer_gid{};
    bool operator==(const NoticeIssuer&) const = default;
};
extern const HeaderTable kNoticeIssuerTable;

/// Notice:DataDetails of traps 64 to 67 (IBA 14.2.5.1): the port's GID, or the group's.
struct NoticeGid {
    Gid gid{};
    bool operator==(const NoticeGid&) const = default;
};
extern const HeaderTable kNoticeGidTable;

/// The same of trap 128: a switch one of whose links has changed.
struct NoticeLink {
    std::uint16_t lid_addr = 0;
    bool operator==(const NoticeLink&) const = default;
};
extern const HeaderTable kNoticeLinkTable;

/// The same of trap 144: what has changed of a port.
struct NoticeCapability {
    std::uint16_t lid_addr = 0;
    std::uint8_t other_local_changes = 0;  // the changes below say something
    std::uint32_t capability_mask = 0;
    std::uint8_t capability_mask2_change = 0;
    std::uint8_t hierarchy_info_change = 0;
    std::uint8_t sm_priority_change = 0;
    std::uint8_t link_speed_enabled_change = 0;
    std::uint8_t link_width_enabled_change = 0;
    std::uint8_t node_description_change = 0;
    std::uint16_t capability_mask2 = 0;
    bool operator==(const NoticeCapability&) const = default;
};
extern const HeaderTable kNoticeCapabilityTable;

/// The same of trap 256: who asked for what with a wrong M_Key, and by which way it came.
struct NoticeMKey {
    std::uint16_t lid_addr = 0;
    std::uint16_t dr_slid = 0;
    std::uint8_t method = 0;
    std::uint16_t attribute_id = 0;
    std::uint32_t attribute_modifier = 0;
    std::uint64_t m_key = 0;
    std::uint8_t dr_notice = 0;          // the SMP was a directed one
    std::uint8_t dr_path_truncated = 0;  // the path is longer than what follows
    std::uint8_t dr_hop_count = 0;
    std::array<std::uint8_t, 30> dr_return_path{};
    bool operator==(const NoticeMKey&) const = default;
};
extern const HeaderTable kNoticeMKeyTable;

/// The same of traps 257 and 258: a packet with a wrong P_Key or Q_Key, from 1 to 2.
struct NoticeKeys {
    std::uint16_t lid_addr1 = 0;
    std::uint16_t lid_addr2 = 0;
    std::uint32_t key = 0;
    std::uint8_t sl = 0;
    std::uint32_t qp1 = 0;  // 0: the packet does not say
    std::uint32_t qp2 = 0;
    Gid gid_addr1{};  // zero without a GRH
    Gid gid_addr2{};
    bool operator==(const NoticeKeys&) const = default;
};
extern const HeaderTable kNoticeKeysTable;

/// The same of trap 259: a packet with a P_Key that a switch's port does not let pass. Which fields of the
/// packet are known comes first.
struct NoticeSwitchPkey {
    std::uint8_t lid_addr1_valid = 0;
    std::uint8_t lid_addr2_valid = 0;
    std::uint8_t pkey_valid = 0;
    std::uint8_t sl_valid = 0;
    std::uint8_t qp1_valid = 0;
    std::uint8_t qp2_valid = 0;
    std::uint8_t gid_addr1_valid = 0;
    std::uint8_t gid_addr2_valid = 0;
    std::uint16_t lid_addr1 = 0;
    std::uint16_t lid_addr2 = 0;
    std::uint16_t pkey = 0;
    std::uint8_t sl = 0;
    std::uint32_t qp1 = 0;
    std::uint32_t qp2 = 0;
    Gid gid_addr1{};
    Gid gid_addr2{};
    std::uint16_t switch_lid_addr = 0;
    std::uint8_t port_no = 0;
    bool operator==(const NoticeSwitchPkey&) const = default;
};
extern const HeaderTable kNoticeSwitchPkeyTable;

/// Numbers of traps. The last three are of packets to a port whose P_Key is none of its own, or whose Q_Key
/// is not the QP's, and through a switch's port that their P_Key does not pass.
inline constexpr std::uint16_t kGidInServiceTrap = 64;
inline constexpr std::uint16_t kGidOutOfServiceTrap = 65;
inline constexpr std::uint16_t kGroupCreatedTrap = 66;
inline constexpr std::uint16_t kGroupDeletedTrap = 67;
inline constexpr std::uint16_t kLinkTrap = 128;
inline constexpr std::uint16_t kCapabilityTrap = 144;
inline constexpr std::uint16_t kBadMKeyTrap = 256;
inline constexpr std::uint16_t kBadPkeyTrap = 257;
inline constexpr std::uint16_t kBadQkeyTrap = 258;
inline constexpr std::uint16_t kSwitchBadPkeyTrap = 259;
/// Where DataDetails begins in a Notice.
inline constexpr std::size_t kDataDetailsOffset = 10;

}  // namespace urnic::wire::mad
