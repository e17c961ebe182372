#include "rnic/neighbour/membership_message.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/multicast.h"
#include "rnic/wire/peek.h"

namespace urnic::net {

namespace {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

constexpr std::uint8_t kIgmp = 2;
constexpr std::uint8_t kIcmpv6Protocol = 58;
constexpr std::uint8_t kIgmpQuery = 0x11;
constexpr std::uint8_t kIgmpV2Report = 0x16;
constexpr std::uint8_t kIgmpV2Leave = 0x17;
constexpr std::uint8_t kIgmpV3Report = 0x22;
constexpr std::uint8_t kMldQuery = 130;
constexpr std::uint8_t kMldV1Report = 131;
constexpr std::uint8_t kMldV1Done = 132;
constexpr std::uint8_t kMldV2Report = 143;

// IGMP: IPv4 with the Router Alert option (RFC 2113), TTL 1, precedence "internetwork control" (RFC 3376 4).
constexpr std::size_t kIgmpIpBytes = 24;
constexpr std::uint8_t kInternetworkControl = 0xc0;
constexpr std::size_t kIgmpReportHeader = 8;
constexpr std::size_t kIgmpRecordBytes = 8;
constexpr std::size_t kIgmpOldBytes = 8;
constexpr std::size_t kIgmpV3QueryBytes = 12;
// MLD: IPv6, hop limit 1, a hop-by-hop header of the Router Alert option for MLD and PadN (RFC 3810 5).
constexpr std::size_t kHopByHopBytes = 8;
constexpr std::array<std::uint8_t, kHopByHopBytes> kHopByHop{kIcmpv6Protocol, 0, 5, 2, 0, 0, 1, 0};
constexpr std::size_t kMldAt = wire::kIpv6Bytes + kHopByHopBytes;
constexpr std::size_t kMldReportHeader = 8;
constexpr std::size_t kMldRecordBytes = 20;
constexpr std::size_t kMldOldBytes = 24;
constexpr std::size_t kMldV2QueryBytes = 28;

constexpr std::uint32_t kIgmpV3Routers = 0xe0000016;  // 224.0.0.22
constexpr std::uint32_t kAllIpv4Routers = 0xe0000002;
constexpr std::uint32_t kMillisecond = 1'000'000;
constexpr std::size_t kLeastFrame = 60;  // of Ethernet, without its checksum

std::uint8_t u8(ConstBytes bytes, std::size_t at) { return std::to_integer<std::uint8_t>(bytes[at]); }
void put8(MutableBytes bytes, std::size_t at, std::uint8_t value) { bytes[at] = std::byte{value}; }
void put16(MutableBytes bytes, std::size_t at, std::uint16_t value) {
    put8(bytes, at, static_cast<std::uint8_t>(value >> 8U));
    put8(bytes, at + 1, static_cast<std::uint8_t>(value));
}
void put32(MutableBytes bytes, std::size_t at, std::uint32_t value) {
    put16(bytes, at, static_cast<std::uint16_t>(value >> 16U));
    put16(bytes, at + 2, static_cast<std::uint16_t>(value));
}
void put_gid(MutableBytes bytes, std::size_t at, const wire::Gid& gid) {
    std::memcpy(&bytes[at], gid.data(), gid.size());
}
std::uint32_t ipv4_of(const wire::Gid& gid) {
    return static_cast<std::uint32_t>(gid[12]) << 24U | static_cast<std::uint32_t>(gid[13]) << 16U |
           static_cast<std::uint32_t>(gid[14]) << 8U | gid[15];
}
wire::Gid mapped(std::uint32_t ipv4) {
    wire::Gid gid{};
    gid[10] = gid[11] = 0xff;
    for (unsigned i = 0; i < 4; ++i) {
        gid[12 + i] = static_cast<std::uint8_t>(ipv4 >> (24 - 8 * i));
    }
    return gid;
}
/// ff02::`last`.
wire::Gid all_of(std::uint8_t last) {
    wire::Gid gid{};
    gid[0] = 0xff;
    gid[1] = 0x02;
    gid[15] = last;
    return gid;
}

/// Ethernet, with a tag where there is a VLAN. Returns where the packet begins.
std::size_t put_ethernet(const MembershipSource& source, const wire::Gid& destination, std::uint16_t type,
                         MutableBytes frame) {
    const wire::Mac to = wire::multicast_mac(destination);
    std::memcpy(frame.data(), to.data(), to.size());
    std::memcpy(&frame[to.size()], source.mac.data(), source.mac.size());
    std::size_t at = 2 * to.size();
    if (source.vlan != 0) {
        put16(frame, at, wire::kEtherTypeVlan);
        put16(frame, at + 2, source.vlan);
        at += wire::kVlanTagBytes;
    }
    put16(frame, at, type);
    return at + 2;
}

/// The IPv4 header in front of `bytes` of IGMP, whose checksum it makes. Returns the frame's bytes.
std::size_t finish_igmp(const MembershipSource& source, std::uint32_t destination, std::size_t bytes,
                        std::size_t at, MutableBytes frame) {
    const MutableBytes ip = frame.subspan(at);
    put8(ip, 0, 0x46);
    put8(ip, 1, kInternetworkControl);
    put16(ip, 2, static_cast<std::uint16_t>(kIgmpIpBytes + bytes));
    put16(ip, 6, 0x4000);
    put8(ip, 8, 1);
    put8(ip, 9, kIgmp);
    put32(ip, 12, ipv4_of(source.ipv4));
    put32(ip, 16, destination);
    put32(ip, 20, 0x94040000);
    put16(ip, 10, wire::checksum_fold(wire::checksum_sum(ip.first(kIgmpIpBytes))));
    const MutableBytes igmp = ip.subspan(kIgmpIpBytes, bytes);
    put16(igmp, 2, wire::checksum_fold(wire::checksum_sum(igmp)));
    return std::max(at + kIgmpIpBytes + bytes, kLeastFrame);
}

/// Sum of an ICMPv6 message and its pseudo-header (RFC 8200 8.1).
std::uint64_t icmpv6_sum(ConstBytes ip, ConstBytes icmp) {
    return wire::checksum_sum(icmp, wire::checksum_sum(ip.subspan(8, 32), icmp.size() + kIcmpv6Protocol));
}

/// The IPv6 and hop-by-hop headers in front of `bytes` of ICMPv6, whose checksum it makes.
std::size_t finish_mld(const MembershipSource& source, const wire::Gid& destination, std::size_t bytes,
                       std::size_t at, MutableBytes frame) {
    const MutableBytes ip = frame.subspan(at);
    put8(ip, 0, 0x60);
    put16(ip, 4, static_cast<std::uint16_t>(kHopByHopBytes + bytes));
    put8(ip, 7, 1);
    put_gid(ip, 8, source.ipv6);
    put_gid(ip, 24, destination);
    std::memcpy(&ip[wire::kIpv6Bytes], kHopByHop.data(), kHopByHop.size());
    const MutableBytes icmp = ip.subspan(kMldAt, bytes);
    put16(icmp, 2, wire::checksum_fold(icmpv6_sum(ip, icmp)));
    return std::max(at + kMldAt + bytes, kLeastFrame);
}

/// A "floating-point" response code (RFC 3376 4.1.1, RFC 3810 5.1.3): below the sign bit the number itself,
/// else 3 bits of exponent and a mantissa of `bits`.
std::uint64_t response_of(std::uint32_t code, unsigned bits) {
    const std::uint32_t sign = 1U << (bits + 3);
    if (code < sign) {
        return code;
    }
    const std::uint32_t mantissa = code & ((1U << bits) - 1);
    return static_cast<std::uint64_t>(mantissa | 1U << bits) << ((code >> bits & 7U) + 3);
}

std::optional<MembershipQuery> parse_igmp(ConstBytes ip) {
    const std::size_t header = std::size_t{u8(ip, 0) & 0xfU} * 4;
    const std::size_t total = wire::load_be16(&ip[2]);
    // RFC 3376 4: TTL 1; behind the IP packet there may be Ethernet's padding.
    if (header < wire::kIpv4Bytes || total > ip.size() || total < header + kIgmpOldBytes || u8(ip, 8) != 1 ||
        wire::checksum_fold(wire::checksum_sum(ip.first(header))) != 0) {
        return std::nullopt;
    }
    const ConstBytes igmp = ip.subspan(header, total - header);
    if (u8(igmp, 0) != kIgmpQuery || wire::checksum_fold(wire::checksum_sum(igmp)) != 0 ||
        (igmp.size() != kIgmpOldBytes && igmp.size() < kIgmpV3QueryBytes)) {
        return std::nullopt;
    }
    MembershipQuery query;
    query.is_old = igmp.size() == kIgmpOldBytes;
    const std::uint8_t code = u8(igmp, 1);
    // Tenths of a second; version 1 has none and means ten seconds (RFC 2236 4).
    const std::uint64_t tenths = query.is_old ? (code == 0 ? 100 : code) : response_of(code, 4);
    query.max_response_ns = static_cast<TimeNs>(tenths * 100 * kMillisecond);
    if (const std::uint32_t group = wire::load_be32(&igmp[4]); group != 0) {
        query.group = mapped(group);
        if (!wire::is_multicast(query.group)) {
            return std::nullopt;
        }
    }
    return query;
}

std::optional<MembershipQuery> parse_mld(ConstBytes ip) {
    const std::size_t total = wire::kIpv6Bytes + wire::load_be16(&ip[4]);
    // RFC 3810 6.2: a link-local source, hop limit 1, the Router Alert option.
    if (total > ip.size() || total < kMldAt + kMldOldBytes || u8(ip, 7) != 1 || u8(ip, 8) != 0xfe ||
        (u8(ip, 9) & 0xc0U) != 0x80 || wire::load_be32(&ip[wire::kIpv6Bytes + 2]) != 0x0502'0000) {
        return std::nullopt;
    }
    const ConstBytes icmp = ip.subspan(kMldAt, total - kMldAt);
    if (wire::checksum_fold(icmpv6_sum(ip, icmp)) != 0 ||
        (icmp.size() != kMldOldBytes && icmp.size() < kMldV2QueryBytes)) {
        return std::nullopt;
    }
    MembershipQuery query;
    query.is_ipv6 = true;
    query.is_old = icmp.size() == kMldOldBytes;
    const std::uint16_t code = wire::load_be16(&icmp[4]);
    query.max_response_ns = static_cast<TimeNs>((query.is_old ? code : response_of(code, 12)) * kMillisecond);
    std::memcpy(query.group.data(), &icmp[8], query.group.size());
    if (query.group != wire::Gid{} && query.group[0] != 0xff) {
        return std::nullopt;
    }
    return query;
}

}  // namespace

std::size_t build_membership_report(const MembershipSource& source, std::span<const MembershipRecord> records,
                                    std::span<std::byte, kReportFrameBytes> frame) {
    std::fill(frame.begin(), frame.end(), std::byte{0});
    const bool is_ipv6 = records.front().group[0] == 0xff;
    const wire::Gid destination = is_ipv6 ? all_of(0x16) : mapped(kIgmpV3Routers);
    const std::size_t at =
        put_ethernet(source, destination, is_ipv6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4, frame);
    const MutableBytes report = MutableBytes(frame).subspan(at + (is_ipv6 ? kMldAt : kIgmpIpBytes));
    put8(report, 0, is_ipv6 ? kMldV2Report : kIgmpV3Report);
    put16(report, 6, static_cast<std::uint16_t>(records.size()));
    std::size_t bytes = is_ipv6 ? kMldReportHeader : kIgmpReportHeader;
    for (const MembershipRecord& record : records) {
        put8(report, bytes, static_cast<std::uint8_t>(record.type));
        if (is_ipv6) {
            put_gid(report, bytes + 4, record.group);
        } else {
            put32(report, bytes + 4, ipv4_of(record.group));
        }
        bytes += is_ipv6 ? kMldRecordBytes : kIgmpRecordBytes;
    }
    return is_ipv6 ? finish_mld(source, destination, bytes, at, frame)
                   : finish_igmp(source, kIgmpV3Routers, bytes, at, frame);
}

std::size_t build_old_report(const MembershipSource& source, const MembershipRecord& record,
                             std::span<std::byte, kReportFrameBytes> frame) {
    std::fill(frame.begin(), frame.end(), std::byte{0});
    const bool leaves = record.type == RecordType::kToInclude;
    if (record.group[0] == 0xff) {
        const wire::Gid destination = leaves ? all_of(2) : record.group;
        const std::size_t at = put_ethernet(source, destination, wire::kEtherTypeIpv6, frame);
        const MutableBytes message = MutableBytes(frame).subspan(at + kMldAt);
        put8(message, 0, leaves ? kMldV1Done : kMldV1Report);
        put_gid(message, 8, record.group);
        return finish_mld(source, destination, kMldOldBytes, at, frame);
    }
    const std::uint32_t destination = leaves ? kAllIpv4Routers : ipv4_of(record.group);
    const std::size_t at = put_ethernet(source, mapped(destination), wire::kEtherTypeIpv4, frame);
    const MutableBytes message = MutableBytes(frame).subspan(at + kIgmpIpBytes);
    put8(message, 0, leaves ? kIgmpV2Leave : kIgmpV2Report);
    put32(message, 4, ipv4_of(record.group));
    return finish_igmp(source, destination, kIgmpOldBytes, at, frame);
}

bool is_membership_query(ConstBytes frame) {
    const wire::Peek link = wire::peek(frame);
    if (!link.is_ip) {
        return false;
    }
    const ConstBytes ip = frame.subspan(link.l3_offset);
    if (link.is_ipv4) {
        const std::size_t header = std::size_t{u8(ip, 0) & 0xfU} * 4;
        return u8(ip, 9) == kIgmp && ip.size() > header && u8(ip, header) == kIgmpQuery;
    }
    return ip.size() > kMldAt && u8(ip, 6) == 0 && u8(ip, wire::kIpv6Bytes) == kIcmpv6Protocol &&
           u8(ip, wire::kIpv6Bytes + 1) == 0 && u8(ip, kMldAt) == kMldQuery;
}

std::optional<MembershipQuery> parse_membership_query(ConstBytes frame) {
    if (!is_membership_query(frame)) {
        return std::nullopt;
    }
    const wire::Peek link = wire::peek(frame);
    const ConstBytes ip = frame.subspan(link.l3_offset);
    return link.is_ipv4 ? parse_igmp(ip) : parse_mld(ip);
}

}  // namespace urnic::net
