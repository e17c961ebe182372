#include "ulp/ipoib/codec/subnet_records.h"

namespace urnic::ipoib {

namespace {

constexpr std::uint8_t kBaseVersion = 1;
constexpr std::uint8_t kClass = 0x03;
constexpr std::uint8_t kClassVersion = 2;
enum Method : std::uint8_t { kGet = 0x01, kSet = 0x02, kGetResp = 0x81, kDelete = 0x15, kDeleteResp = 0x95 };
enum Attribute : std::uint16_t { kPathRecord = 0x0035, kMcMemberRecord = 0x0038 };
constexpr std::size_t kMadHeader = 24;
/// Where they begin.
constexpr std::size_t kStatus = 4;
constexpr std::size_t kTransactionLow = 12;
constexpr std::size_t kAttribute = 16;
constexpr std::size_t kComponentMask = 48;
constexpr std::size_t kRecord = 56;

/// MTUSelector and RateSelector: exactly that.
constexpr std::uint8_t kExactly = 2U << 6U;

/// Bits of a component mask (IBA tables 212 and 214).
namespace member_bit {
constexpr std::uint32_t kMgid = 1U << 0U, kPortGid = 1U << 1U, kQkey = 1U << 2U, kMtu = 3U << 4U,
                        kTclass = 1U << 6U, kPkey = 1U << 7U, kRate = 3U << 8U, kSl = 1U << 12U,
                        kFlowLabel = 1U << 13U, kHopLimit = 1U << 14U, kJoinState = 1U << 16U;
}  // namespace member_bit
namespace path_bit {
constexpr std::uint32_t kDgid = 1U << 2U, kSgid = 1U << 3U, kTclass = 1U << 10U, kNumbPath = 1U << 12U,
                        kPkey = 1U << 13U;
}  // namespace path_bit

/// Where the fields of an MCMemberRecord begin.
namespace member_at {
constexpr std::size_t kMgid = kRecord, kPortGid = kRecord + 16, kQkey = kRecord + 32, kMlid = kRecord + 36,
                      kMtu = kRecord + 38, kTclass = kRecord + 39, kPkey = kRecord + 40, kRate = kRecord + 42,
                      kSlFlowHop = kRecord + 44, kScopeJoin = kRecord + 48;
}  // namespace member_at
/// And of a PathRecord.
namespace path_at {
constexpr std::size_t kDgid = kRecord + 8, kSgid = kRecord + 24, kDlid = kRecord + 40, kSlid = kRecord + 42,
                      kFlowHop = kRecord + 44, kTclass = kRecord + 48, kNumbPath = kRecord + 49,
                      kPkey = kRecord + 50, kSl = kRecord + 53;
}  // namespace path_at

SaMad request(std::uint32_t id, Method method, Attribute attribute, std::uint32_t components) {
    SaMad mad{};
    put_u8(mad, 0, kBaseVersion);
    put_u8(mad, 1, kClass);
    put_u8(mad, 2, kClassVersion);
    put_u8(mad, 3, method);
    put_u32(mad, kTransactionLow, id);
    put_u16(mad, kAttribute, attribute);
    put_u32(mad, kComponentMask + 4, components);
    return mad;
}

void put_gid(Octets octets, std::size_t at, const Gid& gid) {
    std::copy(gid.begin(), gid.end(), octets.begin() + static_cast<std::ptrdiff_t>(at));
}

Gid gid_at(ConstOctets octets, std::size_t at) {
    Gid gid{};
    std::copy_n(octets.begin() + static_cast<std::ptrdiff_t>(at), gid.size(), gid.begin());
    return gid;
}

GroupRecord read_group(ConstOctets mad) {
    const std::uint32_t sl_flow_hop = u32_at(mad, member_at::kSlFlowHop);
    return {.qkey = u32_at(mad, member_at::kQkey),
            .mlid = u16_at(mad, member_at::kMlid),
            .mtu = static_cast<std::uint8_t>(u8_at(mad, member_at::kMtu) & 0x3FU),
            .rate = static_cast<std::uint8_t>(u8_at(mad, member_at::kRate) & 0x3FU),
            .traffic_class = u8_at(mad, member_at::kTclass),
            .pkey = u16_at(mad, member_at::kPkey),
            .service_level = static_cast<std::uint8_t>(sl_flow_hop >> 28U),
            .flow_label = sl_flow_hop >> 8U & 0xFFFFFU,
            .hop_limit = static_cast<std::uint8_t>(sl_flow_hop)};
}

PathRecord read_path(ConstOctets mad) {
    const std::uint32_t flow_hop = u32_at(mad, path_at::kFlowHop);
    return {.dgid = gid_at(mad, path_at::kDgid),
            .dlid = u16_at(mad, path_at::kDlid),
            .slid = u16_at(mad, path_at::kSlid),
            .flow_label = flow_hop >> 8U & 0xFFFFFU,
            .hop_limit = static_cast<std::uint8_t>(flow_hop),
            .traffic_class = u8_at(mad, path_at::kTclass),
            .service_level = static_cast<std::uint8_t>(u8_at(mad, path_at::kSl) & 0xFU)};
}

SaMad member_request(std::uint32_t id, Method method, const SubnetMember& member, const Gid& group,
                     std::uint8_t states, std::uint32_t more) {
    namespace bit = member_bit;
    SaMad mad = request(id, method, kMcMemberRecord,
                        bit::kMgid | bit::kPortGid | bit::kPkey | bit::kJoinState | more);
    put_gid(mad, member_at::kMgid, group);
    put_gid(mad, member_at::kPortGid, member.port_gid);
    put_u16(mad, member_at::kPkey, member.pkey);
    put_u8(mad, member_at::kScopeJoin, states);
    return mad;
}

}  // namespace

SaMad join_request(std::uint32_t id, const SubnetMember& member, const Gid& group, JoinState state,
                   const GroupRecord* made_like) {
    namespace bit = member_bit;
    const auto states = static_cast<std::uint8_t>(state);
    if (made_like == nullptr) {
        return member_request(id, kSet, member, group, states, 0);
    }
    SaMad mad = member_request(
        id, kSet, member, group, states,
        bit::kQkey | bit::kMtu | bit::kTclass | bit::kRate | bit::kSl | bit::kFlowLabel | bit::kHopLimit);
    put_u32(mad, member_at::kQkey, made_like->qkey);
    put_u8(mad, member_at::kMtu, kExactly | made_like->mtu);
    put_u8(mad, member_at::kTclass, made_like->traffic_class);
    put_u8(mad, member_at::kRate, kExactly | made_like->rate);
    put_u32(mad, member_at::kSlFlowHop,
            std::uint32_t{made_like->service_level} << 28U | (made_like->flow_label & 0xFFFFFU) << 8U |
                made_like->hop_limit);
    return mad;
}

SaMad leave_request(std::uint32_t id, const SubnetMember& member, const Gid& group, std::uint8_t states) {
    return member_request(id, kDelete, member, group, states, 0);
}

SaMad path_request(std::uint32_t id, const SubnetMember& member, const Gid& destination,
                   std::uint8_t traffic_class) {
    namespace bit = path_bit;
    SaMad mad =
        request(id, kGet, kPathRecord, bit::kDgid | bit::kSgid | bit::kTclass | bit::kNumbPath | bit::kPkey);
    put_gid(mad, path_at::kDgid, destination);
    put_gid(mad, path_at::kSgid, member.port_gid);
    put_u8(mad, path_at::kTclass, traffic_class);
    put_u8(mad, path_at::kNumbPath, 1);
    put_u16(mad, path_at::kPkey, member.pkey);
    return mad;
}

std::optional<std::uint32_t> sa_request_id(ConstOctets mad) {
    return mad.size() < kMadHeader ? std::nullopt : std::optional(u32_at(mad, kTransactionLow));
}

std::optional<SaAnswer> parse_sa_answer(ConstOctets mad) {
    if (mad.size() < SaMad{}.size() || u8_at(mad, 0) != kBaseVersion || u8_at(mad, 1) != kClass ||
        u8_at(mad, 2) != kClassVersion) {
        return std::nullopt;
    }
    const std::uint8_t method = u8_at(mad, 3);
    const std::uint16_t attribute = u16_at(mad, kAttribute);
    SaAnswer answer{.id = u32_at(mad, kTransactionLow), .status = u16_at(mad, kStatus)};
    if (attribute == kMcMemberRecord && (method == kGetResp || method == kDeleteResp)) {
        answer.gid = gid_at(mad, member_at::kMgid);
        answer.group = read_group(mad);
        return answer;
    }
    if (attribute == kPathRecord && method == kGetResp) {
        answer.subject = SaSubject::kPath;
        answer.path = read_path(mad);
        answer.gid = answer.path.dgid;
        return answer;
    }
    return std::nullopt;
}

}  // namespace urnic::ipoib
