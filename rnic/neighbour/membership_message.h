// Membership reports and queries, by which hosts tell routers, and switches that listen (RFC 4541), which
// groups they receive: IGMPv3 and IGMPv2 (RFC 3376, RFC 2236), MLDv2 and MLDv1 (RFC 3810, RFC 2710), as whole
// Ethernet frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "rnic/wire/packet_view.h"

namespace urnic::net {

/// Types of group records (RFC 3376 4.2.12, RFC 3810 5.2.12); none names a source.
enum class RecordType : std::uint8_t {
    kIsExclude = 2,  // the answer to a query: a member
    kToInclude = 3,  // a member no more
    kToExclude = 4,  // a member from now on
};

struct MembershipRecord {
    wire::Gid group{};
    RecordType type = RecordType::kIsExclude;
};

/// Who reports.
struct MembershipSource {
    wire::Mac mac{};
    wire::Gid ipv6{};  // link-local; zeros: none yet (RFC 3590)
    wire::Gid ipv4{};  // IPv4-mapped; zeros: 0.0.0.0
    std::uint16_t vlan = 0;
};

struct MembershipQuery {
    bool is_ipv6 = false;
    bool is_old = false;  // of IGMPv2 or MLDv1: its querier does not know the newer reports
    wire::Gid group{};    // zeros: all groups
    TimeNs max_response_ns = 0;
};

/// Most bytes of one frame, and records that fit it.
inline constexpr std::size_t kReportFrameBytes = 186;
inline constexpr std::size_t kMostIpv4Records = 17;
inline constexpr std::size_t kMostIpv6Records = 5;

/// IGMPv3 or MLDv2: 1 to kMost... records, whose groups are of one family. Returns the frame's bytes.
[[nodiscard]] std::size_t build_membership_report(const MembershipSource& source,
                                                  std::span<const MembershipRecord> records,
                                                  std::span<std::byte, kReportFrameBytes> frame);
/// IGMPv2 or MLDv1: a report, or for kToInclude a leave (done) message.
[[nodiscard]] std::size_t build_old_report(const MembershipSource& source, const MembershipRecord& record,
                                           std::span<std::byte, kReportFrameBytes> frame);

/// Returns whether a frame looks like a query of IGMP or MLD.
[[nodiscard]] bool is_membership_query(std::span<const std::byte> frame);
/// None: no query, or one that is to be ignored: a wrong checksum, hop limit or source, other lengths.
[[nodiscard]] std::optional<MembershipQuery> parse_membership_query(std::span<const std::byte> frame);

}  // namespace urnic::net
