#include "rnic/neighbour/neighbour_message.h"

#include <cstring>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/multicast.h"
#include "rnic/wire/peek.h"

namespace urnic::net {

namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint16_t kEtherTypeArp = 0x0806;
constexpr std::uint8_t kProtocolIcmpv6 = 58;
constexpr std::uint8_t kSolicitation = 135;
constexpr std::uint8_t kAdvertisement = 136;
constexpr std::uint8_t kHopLimit = 255;  // RFC 4861 7.1: has crossed no router

// ARP, from its first byte (RFC 826).
constexpr std::size_t kArpBytes = 28;
constexpr std::uint32_t kArpEthernetIpv4 = 0x0001'0800;  // hardware and protocol
constexpr std::uint16_t kArpLengths = 0x0604;
constexpr std::size_t kArpOperation = 6;
constexpr std::size_t kArpSenderMac = 8;
constexpr std::size_t kArpSender = 14;
constexpr std::size_t kArpTargetMac = 18;
constexpr std::size_t kArpTarget = 24;

// ND messages, from the first byte of ICMPv6 (RFC 4861 4.3, 4.4, 4.6.1).
constexpr std::size_t kNdChecksum = 2;
constexpr std::size_t kNdFlags = 4;
constexpr std::size_t kNdTarget = 8;
constexpr std::size_t kNdBytes = 24;
constexpr std::size_t kNdOptionBytes = 8;  // one with an Ethernet address
constexpr std::uint8_t kSourceAddress = 1;
constexpr std::uint8_t kTargetAddress = 2;
constexpr std::uint8_t kSolicitedFlag = 0x40;
constexpr std::uint8_t kOverrideFlag = 0x20;

std::uint8_t byte_at(Bytes bytes, std::size_t at) { return std::to_integer<std::uint8_t>(bytes[at]); }

template <typename Address>
Address address_at(Bytes bytes, std::size_t at) {
    Address address{};
    std::memcpy(address.data(), &bytes[at], address.size());
    return address;
}

/// As an IPv4-mapped GID; 0.0.0.0 is nobody.
wire::Gid ipv4_at(Bytes bytes, std::size_t at) {
    wire::Gid gid{};
    if (wire::load_be32(&bytes[at]) != 0) {
        gid[10] = gid[11] = 0xff;
        std::memcpy(&gid[12], &bytes[at], 4);
    }
    return gid;
}

bool is_station(const wire::Mac& mac) { return !wire::is_multicast(mac) && mac != wire::Mac{}; }

bool is_nd(Bytes ip) {
    return ip.size() > wire::kIpv6Bytes && byte_at(ip, wire::kIpv6NextHeader) == kProtocolIcmpv6 &&
           (byte_at(ip, wire::kIpv6Bytes) == kSolicitation ||
            byte_at(ip, wire::kIpv6Bytes) == kAdvertisement);
}

enum class Protocol : std::uint8_t { kOther, kArp, kNd };

Protocol protocol_of(Bytes frame, const wire::Peek& link) {
    if (frame.size() <= link.l3_offset) {
        return Protocol::kOther;
    }
    return link.ether_type == kEtherTypeArp ? Protocol::kArp
           : link.ether_type == wire::kEtherTypeIpv6 && is_nd(frame.subspan(link.l3_offset))
               ? Protocol::kNd
               : Protocol::kOther;
}

NeighbourParse parse_arp(Bytes arp, NeighbourMessage& message) {
    if (arp.size() < kArpBytes || wire::load_be32(arp.data()) != kArpEthernetIpv4 ||
        wire::load_be16(&arp[4]) != kArpLengths) {
        return NeighbourParse::kMalformed;
    }
    const std::uint16_t operation = wire::load_be16(&arp[kArpOperation]);
    if (operation != 1 && operation != 2) {
        return NeighbourParse::kMalformed;
    }
    message.op = operation == 1 ? NeighbourOp::kAsk : NeighbourOp::kAnswer;
    message.sender_mac = address_at<wire::Mac>(arp, kArpSenderMac);
    message.sender = ipv4_at(arp, kArpSender);
    message.target = ipv4_at(arp, kArpTarget);
    message.is_solicited = operation == 2 && !wire::is_multicast(message.eth_dst);
    message.may_override = true;
    const bool may_be_nobody = message.op == NeighbourOp::kAsk;
    const bool sender_good = message.sender == wire::Gid{} ? may_be_nobody : is_host_address(message.sender);
    return sender_good && is_station(message.sender_mac) ? NeighbourParse::kGood : NeighbourParse::kMalformed;
}

/// Finds the Ethernet address in the option of that type. Returns whether the options are well-formed.
bool read_options(Bytes options, std::uint8_t wanted, wire::Mac& mac) {
    while (!options.empty()) {
        if (options.size() < 2) {
            return false;
        }
        const std::size_t bytes = std::size_t{byte_at(options, 1)} * 8;
        if (bytes == 0 || bytes > options.size()) {
            return false;
        }
        if (byte_at(options, 0) == wanted) {
            mac = address_at<wire::Mac>(options, 2);
            if (bytes != kNdOptionBytes || !is_station(mac)) {
                return false;
            }
        }
        options = options.subspan(bytes);
    }
    return true;
}

bool checksum_good(Bytes ip, Bytes icmp) {
    const std::uint64_t pseudo =
        wire::checksum_sum(ip.subspan(wire::kIpv6Source, 32), kProtocolIcmpv6 + icmp.size());
    return wire::checksum_fold(wire::checksum_sum(icmp, pseudo)) == 0;
}

NeighbourParse parse_nd(Bytes ip, NeighbourMessage& message) {
    const std::size_t length = wire::load_be16(&ip[wire::kIpv6PayloadLength]);
    if (length > ip.size() - wire::kIpv6Bytes || length < kNdBytes ||
        byte_at(ip, wire::kIpv6HopLimit) != kHopLimit) {
        return NeighbourParse::kMalformed;
    }
    const Bytes icmp = ip.subspan(wire::kIpv6Bytes, length);
    if (byte_at(icmp, 1) != 0 || !checksum_good(ip, icmp)) {
        return NeighbourParse::kMalformed;
    }
    const bool is_answer = byte_at(icmp, 0) == kAdvertisement;
    const auto from = address_at<wire::Gid>(ip, wire::kIpv6Source);
    const auto to = address_at<wire::Gid>(ip, wire::kIpv6Destination);
    const auto subject = address_at<wire::Gid>(icmp, kNdTarget);
    message.op = is_answer ? NeighbourOp::kAnswer : NeighbourOp::kAsk;
    message.sender_mac = {};
    if (!is_host_address(subject) ||
        !read_options(icmp.subspan(kNdBytes), is_answer ? kTargetAddress : kSourceAddress,
                      message.sender_mac)) {
        return NeighbourParse::kMalformed;
    }
    const bool has_mac = message.sender_mac != wire::Mac{};
    if (is_answer) {
        const std::uint8_t flags = byte_at(icmp, kNdFlags);
        message.is_solicited = (flags & kSolicitedFlag) != 0;
        message.may_override = (flags & kOverrideFlag) != 0;
        message.sender = subject;
        message.target = to;
        // 7.1.2: what goes to all was not asked for.
        return wire::is_multicast(to) && message.is_solicited ? NeighbourParse::kMalformed
                                                              : NeighbourParse::kGood;
    }
    message.is_solicited = false;
    message.may_override = true;
    message.sender = from;
    message.target = subject;
    if (from == wire::Gid{}) {  // 7.1.1: duplicate address detection
        return to == solicited_node(subject) && !has_mac ? NeighbourParse::kGood : NeighbourParse::kMalformed;
    }
    return is_host_address(from) ? NeighbourParse::kGood : NeighbourParse::kMalformed;
}

void write_arp(const NeighbourMessage& message, std::byte* arp) {
    std::memset(arp, 0, kArpBytes);
    wire::store_be32(arp, kArpEthernetIpv4);
    wire::store_be16(arp + 4, kArpLengths);
    wire::store_be16(arp + kArpOperation, message.op == NeighbourOp::kAsk ? 1 : 2);
    std::memcpy(arp + kArpSenderMac, message.sender_mac.data(), message.sender_mac.size());
    std::memcpy(arp + kArpSender, &message.sender[12], 4);
    if (message.op == NeighbourOp::kAnswer) {
        std::memcpy(arp + kArpTargetMac, message.eth_dst.data(), message.eth_dst.size());
    }
    std::memcpy(arp + kArpTarget, &message.target[12], 4);
}

/// Returns the length.
std::size_t write_nd(const NeighbourMessage& message, std::byte* ip) {
    const bool is_answer = message.op == NeighbourOp::kAnswer;
    const bool has_mac = message.sender_mac != wire::Mac{};
    const std::size_t icmp_bytes = kNdBytes + (has_mac ? kNdOptionBytes : 0);
    std::memset(ip, 0, wire::kIpv6Bytes + icmp_bytes);
    wire::store_be32(ip, 0x6000'0000U);
    wire::store_be16(ip + wire::kIpv6PayloadLength, static_cast<std::uint16_t>(icmp_bytes));
    ip[wire::kIpv6NextHeader] = std::byte{kProtocolIcmpv6};
    ip[wire::kIpv6HopLimit] = std::byte{kHopLimit};
    const bool to_group = wire::is_multicast(message.eth_dst);
    const wire::Gid to = is_answer || !to_group ? message.target : solicited_node(message.target);
    const wire::Gid& subject = is_answer ? message.sender : message.target;
    std::memcpy(ip + wire::kIpv6Source, message.sender.data(), message.sender.size());
    std::memcpy(ip + wire::kIpv6Destination, to.data(), to.size());
    std::byte* const icmp = ip + wire::kIpv6Bytes;
    icmp[0] = std::byte{is_answer ? kAdvertisement : kSolicitation};
    if (is_answer) {
        const auto flags =
            (message.is_solicited ? kSolicitedFlag : 0U) | (message.may_override ? kOverrideFlag : 0U);
        icmp[kNdFlags] = static_cast<std::byte>(flags);
    }
    std::memcpy(icmp + kNdTarget, subject.data(), subject.size());
    if (has_mac) {
        icmp[kNdBytes] = std::byte{is_answer ? kTargetAddress : kSourceAddress};
        icmp[kNdBytes + 1] = std::byte{1};
        std::memcpy(icmp + kNdBytes + 2, message.sender_mac.data(), message.sender_mac.size());
    }
    const std::uint64_t pseudo =
        wire::checksum_sum({ip + wire::kIpv6Source, 32}, kProtocolIcmpv6 + icmp_bytes);
    wire::store_be16(icmp + kNdChecksum, wire::checksum_fold(wire::checksum_sum({icmp, icmp_bytes}, pseudo)));
    return wire::kIpv6Bytes + icmp_bytes;
}

}  // namespace

bool is_neighbour_frame(std::span<const std::byte> frame) {
    return protocol_of(frame, wire::peek(frame)) != Protocol::kOther;
}

NeighbourParse parse_neighbour(std::span<const std::byte> frame, NeighbourMessage& message) {
    const wire::Peek link = wire::peek(frame);
    const Protocol protocol = protocol_of(frame, link);
    if (protocol == Protocol::kOther) {
        return NeighbourParse::kOther;
    }
    message.eth_dst = address_at<wire::Mac>(frame, 0);
    message.eth_src = address_at<wire::Mac>(frame, message.eth_dst.size());
    message.vlan = link.vlan_tci & 0xfffU;
    if (!is_station(message.eth_src)) {
        return NeighbourParse::kMalformed;
    }
    const Bytes l3 = frame.subspan(link.l3_offset);
    return protocol == Protocol::kArp ? parse_arp(l3, message) : parse_nd(l3, message);
}

std::size_t build_neighbour(const NeighbourMessage& message, std::span<std::byte> frame) {
    const bool is_arp = wire::is_ipv4_mapped(message.target) || wire::is_ipv4_mapped(message.sender);
    if (frame.size() < kMaxNeighbourBytes) {
        return 0;
    }
    std::byte* to = frame.data();
    std::memcpy(to, message.eth_dst.data(), message.eth_dst.size());
    to += message.eth_dst.size();
    std::memcpy(to, message.eth_src.data(), message.eth_src.size());
    to += message.eth_src.size();
    if (message.vlan != 0) {
        wire::store_be16(to, wire::kEtherTypeVlan);
        wire::store_be16(to + 2, message.vlan & 0xfffU);
        to += wire::kVlanTagBytes;
    }
    wire::store_be16(to, is_arp ? kEtherTypeArp : wire::kEtherTypeIpv6);
    to += 2;
    std::size_t bytes = kArpBytes;
    if (is_arp) {
        write_arp(message, to);
    } else {
        bytes = write_nd(message, to);
    }
    return static_cast<std::size_t>(to - frame.data()) + bytes;
}

wire::Gid solicited_node(const wire::Gid& address) {
    return {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, address[13], address[14], address[15]};
}

bool is_link_local(const wire::Gid& address) { return address[0] == 0xfe && (address[1] & 0xc0U) == 0x80U; }

bool is_host_address(const wire::Gid& address) {
    if (wire::is_ipv4_mapped(address)) {
        return address[12] != 0 && address[12] != 127 && address[12] < 0xe0;
    }
    constexpr wire::Gid kLoopback = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    return !wire::is_multicast(address) && address != wire::Gid{} && address != kLoopback;
}

}  // namespace urnic::net
