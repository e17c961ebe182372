/// Requests to the subnet administrator and its answers (IBA 15.2): members of groups, paths.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

/// A MAD of subnet administration: common header 24, RMPP 12, SM_Key 8, AttributeOffset 2, reserved 2,
/// component mask 8, record 200.
using SaMad = std::array<std::byte, 256>;

/// MCMemberRecord:JoinState.
enum class JoinState : std::uint8_t {
    kFullMember = 1,         ///< receives and sends; the group lives as long as it has one
    kSendOnlyNonMember = 4,  ///< sends; needs a group that is there
};

/// What an MCMemberRecord (IBA 15.2.5.17) says of a group.
struct GroupRecord {
    std::uint32_t qkey = 0;
    std::uint16_t mlid = 0;
    std::uint8_t mtu = 0;   ///< 1: 256 octets ... 5: 4096
    std::uint8_t rate = 0;  ///< as in PortInfo
    std::uint8_t traffic_class = 0;
    std::uint16_t pkey = 0;
    std::uint8_t service_level = 0;
    std::uint32_t flow_label = 0;
    std::uint8_t hop_limit = 0;

    friend bool operator==(const GroupRecord&, const GroupRecord&) = default;
};

/// What a PathRecord (IBA 15.2.5.16) says of a path.
struct PathRecord {
    Gid dgid{};
    std::uint16_t dlid = 0;
    std::uint16_t slid = 0;
    std::uint32_t flow_label = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t service_level = 0;
};

/// Who asks: a port, in a partition.
struct SubnetMember {
    Gid port_gid{};
    std::uint16_t pkey = 0xFFFF;
};

/// Set of an MCMemberRecord. `made_like`: what a group is to be that is not there yet (RFC 4391, section 10:
/// as the broadcast group); nullptr: it is not made. `id`: the lower half of the transaction ID, which the
/// answer has again.
[[nodiscard]] SaMad join_request(std::uint32_t id, const SubnetMember& member, const Gid& group,
                                 JoinState state, const GroupRecord* made_like);
/// Delete. `states`: bits of JoinState.
[[nodiscard]] SaMad leave_request(std::uint32_t id, const SubnetMember& member, const Gid& group,
                                  std::uint8_t states);
/// Get of one PathRecord.
[[nodiscard]] SaMad path_request(std::uint32_t id, const SubnetMember& member, const Gid& destination,
                                 std::uint8_t traffic_class);

enum class SaSubject : std::uint8_t { kGroup, kPath };

struct SaAnswer {
    std::uint32_t id = 0;
    std::uint16_t status = 0;  ///< 0: the record is there (IBA 13.4.7, 15.2)
    SaSubject subject = SaSubject::kGroup;
    Gid gid{};  ///< the group, or the destination
    GroupRecord group;
    PathRecord path;
};

/// The ID that a request was made with; none: that is too short for a MAD.
[[nodiscard]] std::optional<std::uint32_t> sa_request_id(ConstOctets mad);
/// None: no answer to one of these requests.
[[nodiscard]] std::optional<SaAnswer> parse_sa_answer(ConstOctets mad);

}  // namespace urnic::ipoib
