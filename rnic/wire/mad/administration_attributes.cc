#include "rnic/wire/mad/administration_attributes.h"

#include "rnic/wire/mad/value_names.h"

namespace urnic::wire::mad {

namespace {

using enum FieldFormat;

const char* rmpp_type_name(std::uint64_t type) {
    return pick({"none", "DATA", "ACK", "STOP", "ABORT"}, type);
}
const char* selector_name(std::uint64_t selector) {
    return pick({"greater than", "less than", "exactly", "largest"}, selector);
}
// IBA 15.2.5.16, table 213 and what later releases added.
const char* rate_name(std::uint64_t rate) {
    return pick({nullptr,    nullptr,    "2.5 Gb/s", "10 Gb/s", "30 Gb/s", "5 Gb/s",   "20 Gb/s",  "40 Gb/s",
                 "60 Gb/s",  "80 Gb/s",  "120 Gb/s", "14 Gb/s", "56 Gb/s", "112 Gb/s", "168 Gb/s", "25 Gb/s",
                 "100 Gb/s", "200 Gb/s", "300 Gb/s", "28 Gb/s", "50 Gb/s", "400 Gb/s", "600 Gb/s"},
                rate);
}
const char* join_state_name(std::uint64_t state) {
    return pick({"none", "FullMember", "NonMember", nullptr, "SendOnlyNonMember", nullptr, nullptr, nullptr,
                 "SendOnlyFullMember"},
                state);
}

constexpr Field kRmppFields[] = {
    URNIC_WIRE_FIELD(Rmpp, version, 0, 8, kDecimal),
    URNIC_WIRE_NAMED(Rmpp, type, 8, 8, kDecimal, rmpp_type_name),
    URNIC_WIRE_FIELD(Rmpp, resp_time, 16, 5, kDecimal),
    URNIC_WIRE_FIELD(Rmpp, flags, 21, 3, kHex),
    URNIC_WIRE_FIELD(Rmpp, status, 24, 8, kDecimal),
    URNIC_WIRE_FIELD(Rmpp, data1, 32, 32, kDecimal),
    URNIC_WIRE_FIELD(Rmpp, data2, 64, 32, kDecimal),
};
static_assert(well_formed(kRmppFields, 12));

constexpr Field kSaHeaderFields[] = {
    URNIC_WIRE_FIELD(SaHeader, sm_key, 0, 64, kHex),
    URNIC_WIRE_FIELD(SaHeader, attribute_offset, 64, 16, kDecimal),
    URNIC_WIRE_FIELD(SaHeader, component_mask, 96, 64, kHex),
};
static_assert(well_formed(kSaHeaderFields, 20));

constexpr Field kLidRecordFields[] = {
    URNIC_WIRE_FIELD(LidRecord, lid, 0, 16, kHex),
};
static_assert(well_formed(kLidRecordFields, 4));

constexpr Field kPortRecordFields[] = {
    URNIC_WIRE_FIELD(PortRecord, lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(PortRecord, port, 16, 8, kDecimal),
    URNIC_WIRE_FIELD(PortRecord, options, 24, 8, kHex),
};
static_assert(well_formed(kPortRecordFields, 4));

constexpr Field kTwoPortRecordFields[] = {
    URNIC_WIRE_FIELD(TwoPortRecord, lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(TwoPortRecord, input_port, 16, 8, kDecimal),
    URNIC_WIRE_FIELD(TwoPortRecord, output_port, 24, 8, kDecimal),
};
static_assert(well_formed(kTwoPortRecordFields, 8));

constexpr Field kBlockRecordFields[] = {
    URNIC_WIRE_FIELD(BlockRecord, lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(BlockRecord, block, 16, 16, kDecimal),
};
static_assert(well_formed(kBlockRecordFields, 8));

constexpr Field kMulticastBlockRecordFields[] = {
    URNIC_WIRE_FIELD(MulticastBlockRecord, lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(MulticastBlockRecord, position, 16, 4, kDecimal),
    URNIC_WIRE_FIELD(MulticastBlockRecord, block, 23, 9, kDecimal),
};
static_assert(well_formed(kMulticastBlockRecordFields, 8));

constexpr Field kPkeyBlockRecordFields[] = {
    URNIC_WIRE_FIELD(PkeyBlockRecord, lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(PkeyBlockRecord, block, 16, 16, kDecimal),
    URNIC_WIRE_FIELD(PkeyBlockRecord, port, 32, 8, kDecimal),
};
static_assert(well_formed(kPkeyBlockRecordFields, 8));

constexpr Field kGuidBlockRecordFields[] = {
    URNIC_WIRE_FIELD(GuidBlockRecord, lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(GuidBlockRecord, block, 16, 8, kDecimal),
};
static_assert(well_formed(kGuidBlockRecordFields, 8));

constexpr Field kLinkRecordFields[] = {
    URNIC_WIRE_FIELD(LinkRecord, from_lid, 0, 16, kHex),
    URNIC_WIRE_FIELD(LinkRecord, from_port, 16, 8, kDecimal),
    URNIC_WIRE_FIELD(LinkRecord, to_port, 24, 8, kDecimal),
    URNIC_WIRE_FIELD(LinkRecord, to_lid, 32, 16, kHex),
};
static_assert(well_formed(kLinkRecordFields, 6));

constexpr Field kServiceRecordFields[] = {
    URNIC_WIRE_FIELD(ServiceRecord, service_id, 0, 64, kHex),
    URNIC_WIRE_FIELD(ServiceRecord, service_gid, 64, 128, kGid),
    URNIC_WIRE_FIELD(ServiceRecord, service_pkey, 192, 16, kHex),
    URNIC_WIRE_FIELD(ServiceRecord, service_lease, 224, 32, kDecimal),
    URNIC_WIRE_FIELD(ServiceRecord, service_key, 256, 128, kBytes),
    URNIC_WIRE_FIELD(ServiceRecord, service_name, 384, 512, kText),
    URNIC_WIRE_FIELD(ServiceRecord, service_data, 896, 512, kBytes),
};
static_assert(well_formed(kServiceRecordFields, 176));

constexpr Field kPathRecordFields[] = {
    URNIC_WIRE_FIELD(PathRecord, service_id, 0, 64, kHex),
    URNIC_WIRE_FIELD(PathRecord, dgid, 64, 128, kGid),
    URNIC_WIRE_FIELD(PathRecord, sgid, 192, 128, kGid),
    URNIC_WIRE_FIELD(PathRecord, dlid, 320, 16, kHex),
    URNIC_WIRE_FIELD(PathRecord, slid, 336, 16, kHex),
    URNIC_WIRE_FIELD(PathRecord, raw_traffic, 352, 1, kDecimal),
    URNIC_WIRE_FIELD(PathRecord, flow_label, 356, 20, kHex),
    URNIC_WIRE_FIELD(PathRecord, hop_limit, 376, 8, kDecimal),
    URNIC_WIRE_FIELD(PathRecord, tclass, 384, 8, kHex),
    URNIC_WIRE_FIELD(PathRecord, reversible, 392, 1, kDecimal),
    URNIC_WIRE_FIELD(PathRecord, numb_path, 393, 7, kDecimal),
    URNIC_WIRE_FIELD(PathRecord, pkey, 400, 16, kHex),
    URNIC_WIRE_FIELD(PathRecord, qos_class, 416, 12, kDecimal),
    URNIC_WIRE_FIELD(PathRecord, sl, 428, 4, kDecimal),
    URNIC_WIRE_NAMED(PathRecord, mtu_selector, 432, 2, kDecimal, selector_name),
    URNIC_WIRE_NAMED(PathRecord, mtu, 434, 6, kDecimal, mtu_name),
    URNIC_WIRE_NAMED(PathRecord, rate_selector, 440, 2, kDecimal, selector_name),
    URNIC_WIRE_NAMED(PathRecord, rate, 442, 6, kDecimal, rate_name),
    URNIC_WIRE_NAMED(PathRecord, packet_life_time_selector, 448, 2, kDecimal, selector_name),
    URNIC_WIRE_FIELD(PathRecord, packet_life_time, 450, 6, kDecimal),
    URNIC_WIRE_FIELD(PathRecord, preference, 456, 8, kDecimal),
};
static_assert(well_formed(kPathRecordFields, 64));

constexpr Field kMcMemberRecordFields[] = {
    URNIC_WIRE_FIELD(McMemberRecord, mgid, 0, 128, kGid),
    URNIC_WIRE_FIELD(McMemberRecord, port_gid, 128, 128, kGid),
    URNIC_WIRE_FIELD(McMemberRecord, qkey, 256, 32, kHex),
    URNIC_WIRE_FIELD(McMemberRecord, mlid, 288, 16, kHex),
    URNIC_WIRE_NAMED(McMemberRecord, mtu_selector, 304, 2, kDecimal, selector_name),
    URNIC_WIRE_NAMED(McMemberRecord, mtu, 306, 6, kDecimal, mtu_name),
    URNIC_WIRE_FIELD(McMemberRecord, tclass, 312, 8, kHex),
    URNIC_WIRE_FIELD(McMemberRecord, pkey, 320, 16, kHex),
    URNIC_WIRE_NAMED(McMemberRecord, rate_selector, 336, 2, kDecimal, selector_name),
    URNIC_WIRE_NAMED(McMemberRecord, rate, 338, 6, kDecimal, rate_name),
    URNIC_WIRE_NAMED(McMemberRecord, packet_life_time_selector, 344, 2, kDecimal, selector_name),
    URNIC_WIRE_FIELD(McMemberRecord, packet_life_time, 346, 6, kDecimal),
    URNIC_WIRE_FIELD(McMemberRecord, sl, 352, 4, kDecimal),
    URNIC_WIRE_FIELD(McMemberRecord, flow_label, 356, 20, kHex),
    URNIC_WIRE_FIELD(McMemberRecord, hop_limit, 376, 8, kDecimal),
    URNIC_WIRE_FIELD(McMemberRecord, scope, 384, 4, kHex),
    URNIC_WIRE_NAMED(McMemberRecord, join_state, 388, 4, kHex, join_state_name),
    URNIC_WIRE_FIELD(McMemberRecord, proxy_join, 392, 1, kDecimal),
};
static_assert(well_formed(kMcMemberRecordFields, 52));

constexpr Field kInformInfoFields[] = {
    URNIC_WIRE_FIELD(InformInfo, gid, 0, 128, kGid),
    URNIC_WIRE_FIELD(InformInfo, lid_range_begin, 128, 16, kHex),
    URNIC_WIRE_FIELD(InformInfo, lid_range_end, 144, 16, kHex),
    URNIC_WIRE_FIELD(InformInfo, is_generic, 176, 8, kDecimal),
    URNIC_WIRE_FIELD(InformInfo, subscribe, 184, 8, kDecimal),
    URNIC_WIRE_FIELD(InformInfo, type, 192, 16, kHex),
    URNIC_WIRE_NAMED(InformInfo, trap_number, 208, 16, kDecimal, trap_name),
    URNIC_WIRE_FIELD(InformInfo, qpn, 224, 24, kHex),
    URNIC_WIRE_FIELD(InformInfo, resp_time_value, 251, 5, kDecimal),
    URNIC_WIRE_NAMED(InformInfo, producer_type, 264, 24, kDecimal, producer_type_name),
};
static_assert(well_formed(kInformInfoFields, 36));

constexpr Field kSubscriberRecordFields[] = {
    URNIC_WIRE_FIELD(SubscriberRecord, subscriber_gid, 0, 128, kGid),
    URNIC_WIRE_FIELD(SubscriberRecord, subscriber_enum, 128, 16, kDecimal),
};
static_assert(well_formed(kSubscriberRecordFields, 24));

constexpr Field kNoticeIssuerFields[] = {
    URNIC_WIRE_FIELD(NoticeIssuer, issuer_gid, 0, 128, kGid),
};
static_assert(well_formed(kNoticeIssuerFields, 16));

constexpr Field kNoticeGidFields[] = {
    URNIC_WIRE_FIELD(NoticeGid, gid, 48, 128, kGid),
};
static_assert(well_formed(kNoticeGidFields, 22));

constexpr Field kNoticeLinkFields[] = {
    URNIC_WIRE_FIELD(NoticeLink, lid_addr, 0, 16, kHex),
};
static_assert(well_formed(kNoticeLinkFields, 2));

constexpr Field kNoticeCapabilityFields[] = {
    URNIC_WIRE_FIELD(NoticeCapability, lid_addr, 16, 16, kHex),
    URNIC_WIRE_FIELD(NoticeCapability, other_local_changes, 47, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, capability_mask, 48, 32, kHex),
    URNIC_WIRE_FIELD(NoticeCapability, capability_mask2_change, 90, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, hierarchy_info_change, 91, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, sm_priority_change, 92, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, link_speed_enabled_change, 93, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, link_width_enabled_change, 94, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, node_description_change, 95, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeCapability, capability_mask2, 96, 16, kHex),
};
static_assert(well_formed(kNoticeCapabilityFields, 14));

constexpr Field kNoticeMKeyFields[] = {
    URNIC_WIRE_FIELD(NoticeMKey, lid_addr, 16, 16, kHex),
    URNIC_WIRE_FIELD(NoticeMKey, dr_slid, 32, 16, kHex),
    URNIC_WIRE_FIELD(NoticeMKey, method, 48, 8, kHex),
    URNIC_WIRE_FIELD(NoticeMKey, attribute_id, 64, 16, kHex),
    URNIC_WIRE_FIELD(NoticeMKey, attribute_modifier, 80, 32, kHex),
    URNIC_WIRE_FIELD(NoticeMKey, m_key, 112, 64, kHex),
    URNIC_WIRE_FIELD(NoticeMKey, dr_notice, 184, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeMKey, dr_path_truncated, 185, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeMKey, dr_hop_count, 186, 6, kDecimal),
    URNIC_WIRE_FIELD(NoticeMKey, dr_return_path, 192, 240, kBytes),
};
static_assert(well_formed(kNoticeMKeyFields, 54));

constexpr Field kNoticeKeysFields[] = {
    URNIC_WIRE_FIELD(NoticeKeys, lid_addr1, 16, 16, kHex),
    URNIC_WIRE_FIELD(NoticeKeys, lid_addr2, 32, 16, kHex),
    URNIC_WIRE_FIELD(NoticeKeys, key, 48, 32, kHex),
    URNIC_WIRE_FIELD(NoticeKeys, sl, 80, 4, kDecimal),
    URNIC_WIRE_FIELD(NoticeKeys, qp1, 88, 24, kHex),
    URNIC_WIRE_FIELD(NoticeKeys, qp2, 120, 24, kHex),
    URNIC_WIRE_FIELD(NoticeKeys, gid_addr1, 144, 128, kGid),
    URNIC_WIRE_FIELD(NoticeKeys, gid_addr2, 272, 128, kGid),
};
static_assert(well_formed(kNoticeKeysFields, 50));

constexpr Field kNoticeSwitchPkeyFields[] = {
    URNIC_WIRE_FIELD(NoticeSwitchPkey, lid_addr1_valid, 0, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, lid_addr2_valid, 1, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, pkey_valid, 2, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, sl_valid, 3, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, qp1_valid, 4, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, qp2_valid, 5, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, gid_addr1_valid, 6, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, gid_addr2_valid, 7, 1, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, lid_addr1, 16, 16, kHex),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, lid_addr2, 32, 16, kHex),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, pkey, 48, 16, kHex),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, sl, 64, 4, kDecimal),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, qp1, 72, 24, kHex),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, qp2, 104, 24, kHex),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, gid_addr1, 128, 128, kGid),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, gid_addr2, 256, 128, kGid),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, switch_lid_addr, 384, 16, kHex),
    URNIC_WIRE_FIELD(NoticeSwitchPkey, port_no, 400, 8, kDecimal),
};
static_assert(well_formed(kNoticeSwitchPkeyFields, 51));

}  // namespace

const HeaderTable kRmppTable = {"RMPP", 12, kRmppFields};
const HeaderTable kSaHeaderTable = {"SA", 20, kSaHeaderFields};
const HeaderTable kLidRecordTable = {"record of a node", 4, kLidRecordFields};
const HeaderTable kPortRecordTable = {"record of a port", 4, kPortRecordFields};
const HeaderTable kTwoPortRecordTable = {"record of two ports", 8, kTwoPortRecordFields};
const HeaderTable kBlockRecordTable = {"record of a block", 8, kBlockRecordFields};
const HeaderTable kMulticastBlockRecordTable = {"record of a multicast block", 8,
                                                kMulticastBlockRecordFields};
const HeaderTable kPkeyBlockRecordTable = {"record of a P_Key block", 8, kPkeyBlockRecordFields};
const HeaderTable kGuidBlockRecordTable = {"record of a GUID block", 8, kGuidBlockRecordFields};
const HeaderTable kLinkRecordTable = {"LinkRecord", 6, kLinkRecordFields};
const HeaderTable kServiceRecordTable = {"ServiceRecord", 176, kServiceRecordFields};
const HeaderTable kPathRecordTable = {"PathRecord", 64, kPathRecordFields};
const HeaderTable kMcMemberRecordTable = {"MCMemberRecord", 52, kMcMemberRecordFields};
const HeaderTable kInformInfoTable = {"InformInfo", 36, kInformInfoFields};
const HeaderTable kSubscriberRecordTable = {"record of a subscriber", 24, kSubscriberRecordFields};
const HeaderTable kNoticeIssuerTable = {"issuer of a notice", 16, kNoticeIssuerFields};
const HeaderTable kNoticeGidTable = {"GID of a notice", 22, kNoticeGidFields};
const HeaderTable kNoticeLinkTable = {"link of a notice", 2, kNoticeLinkFields};
const HeaderTable kNoticeCapabilityTable = {"capabilities of a notice", 14, kNoticeCapabilityFields};
const HeaderTable kNoticeMKeyTable = {"M_Key of a notice", 54, kNoticeMKeyFields};
const HeaderTable kNoticeKeysTable = {"key of a notice", 50, kNoticeKeysFields};
const HeaderTable kNoticeSwitchPkeyTable = {"P_Key at a switch of a notice", 51, kNoticeSwitchPkeyFields};

}  // namespace urnic::wire::mad
