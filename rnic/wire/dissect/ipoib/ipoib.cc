#include "rnic/wire/dissect/ipoib/ipoib.h"

#include "base/bytes.h"
#include "rnic/wire/dissect/eth/headers.h"
#include "rnic/wire/dissect/ib/link.h"

namespace urnic::wire {

namespace {

constexpr std::uint8_t kHardwareAddressBytes = 20;
constexpr std::uint8_t kProtocolAddressBytes = 4;

const char* arp_operation_name(std::uint64_t operation) {
    constexpr std::array<const char*, 5> kNames = {nullptr, "request", "reply", "reverse request",
                                                   "reverse reply"};
    return operation < kNames.size() ? kNames[operation] : nullptr;
}
const char* hardware_name(std::uint64_t type) {
    return type == kArpHardwareInfiniBand ? "InfiniBand" : nullptr;
}

using enum FieldFormat;

constexpr Field kEncapsulationFields[] = {
    URNIC_WIRE_NAMED(IpoibEncapsulation, ether_type, 0, 16, kHex, ether_type_name),
};
static_assert(well_formed(kEncapsulationFields, kIpoibEncapsulationBytes));

constexpr Field kArpFields[] = {
    URNIC_WIRE_NAMED(IpoibArp, hardware_type, 0, 16, kDecimal, hardware_name),
    URNIC_WIRE_NAMED(IpoibArp, protocol_type, 16, 16, kHex, ether_type_name),
    URNIC_WIRE_FIELD(IpoibArp, hardware_length, 32, 8, kDecimal),
    URNIC_WIRE_FIELD(IpoibArp, protocol_length, 40, 8, kDecimal),
    URNIC_WIRE_NAMED(IpoibArp, operation, 48, 16, kDecimal, arp_operation_name),
    URNIC_WIRE_FIELD(IpoibArp, sender.flags, 64, 8, kHex),
    URNIC_WIRE_FIELD(IpoibArp, sender.qpn, 72, 24, kHex),
    URNIC_WIRE_FIELD(IpoibArp, sender.gid, 96, 128, kGid),
    URNIC_WIRE_FIELD(IpoibArp, sender_ip, 224, 32, kIpv4),
    URNIC_WIRE_FIELD(IpoibArp, target.flags, 256, 8, kHex),
    URNIC_WIRE_FIELD(IpoibArp, target.qpn, 264, 24, kHex),
    URNIC_WIRE_FIELD(IpoibArp, target.gid, 288, 128, kGid),
    URNIC_WIRE_FIELD(IpoibArp, target_ip, 416, 32, kIpv4),
};
static_assert(well_formed(kArpFields, kIpoibArpBytes));

/// Returns whether an IP packet of `packet_bytes` by its own account can be what `content_bytes` carry.
bool fits(std::size_t packet_bytes, std::size_t content_bytes, MessagePart part) {
    return part == MessagePart::kWhole ? packet_bytes <= content_bytes : packet_bytes > content_bytes;
}

bool is_ipv4_packet(std::span<const std::byte> content, std::size_t content_bytes, MessagePart part) {
    if (content.size() < kIpv4Bytes) {
        return false;
    }
    Ipv4 ipv4;
    read_fields(kIpv4Table, content.data(), &ipv4);
    const std::size_t header_bytes = std::size_t{ipv4.header_words} * 4;
    return ipv4.version == 4 && header_bytes >= kIpv4Bytes && ipv4.total_length >= header_bytes &&
           fits(ipv4.total_length, content_bytes, part);
}

bool is_ipv6_packet(std::span<const std::byte> content, std::size_t content_bytes, MessagePart part) {
    if (content.size() < kIpv6Bytes) {
        return false;
    }
    Grh ipv6;
    read_fields(kIpv6Table, content.data(), &ipv6);
    return ipv6.version == 6 && fits(kIpv6Bytes + ipv6.payload_length, content_bytes, part);
}

bool is_infiniband_arp(std::span<const std::byte> content, MessagePart part) {
    if (content.size() < kIpoibArpBytes || part != MessagePart::kWhole) {
        return false;
    }
    IpoibArp arp;
    read_fields(kIpoibArpTable, content.data(), &arp);
    return arp.hardware_type == kArpHardwareInfiniBand && arp.protocol_type == kEtherTypeIpv4 &&
           arp.hardware_length == kHardwareAddressBytes && arp.protocol_length == kProtocolAddressBytes;
}

}  // namespace

const HeaderTable kIpoibEncapsulationTable = {"IPoIB", kIpoibEncapsulationBytes, kEncapsulationFields};
const HeaderTable kIpoibArpTable = {"ARP", kIpoibArpBytes, kArpFields};

bool can_be_ipoib(std::span<const std::byte> payload) {
    if (payload.size() < kIpoibEncapsulationBytes || load_be16(&payload[2]) != 0) {
        return false;
    }
    const std::uint16_t ether_type = load_be16(payload.data());
    return ether_type == kEtherTypeIpv4 || ether_type == kEtherTypeIpv6 || ether_type == kEtherTypeArp ||
           ether_type == kEtherTypeRarp;
}

bool is_ipoib(std::span<const std::byte> payload, std::size_t payload_bytes, MessagePart part) {
    if (!can_be_ipoib(payload)) {
        return false;
    }
    const std::span<const std::byte> content = payload.subspan(kIpoibEncapsulationBytes);
    const std::size_t content_bytes = payload_bytes - kIpoibEncapsulationBytes;
    switch (load_be16(payload.data())) {
        case kEtherTypeIpv4:
            return is_ipv4_packet(content, content_bytes, part);
        case kEtherTypeIpv6:
            return is_ipv6_packet(content, content_bytes, part);
        default:
            return is_infiniband_arp(content, part);
    }
}

}  // namespace urnic::wire
