#include "rnic/wire/ipoib/ipoib.h"

#include "rnic/wire/bytes.h"
#include "rnic/wire/eth/headers.h"

namespace urnic::wire {

namespace {

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

}  // namespace

const HeaderTable kIpoibEncapsulationTable = {"IPoIB", kIpoibEncapsulationBytes, kEncapsulationFields};
const HeaderTable kIpoibArpTable = {"ARP", kIpoibArpBytes, kArpFields};

bool looks_like_ipoib(std::span<const std::byte> payload) {
    if (payload.size() < kIpoibEncapsulationBytes || load_be16(&payload[2]) != 0) {
        return false;
    }
    const std::uint16_t ether_type = load_be16(payload.data());
    return ether_type == kEtherTypeIpv4 || ether_type == kEtherTypeIpv6 || ether_type == kEtherTypeArp ||
           ether_type == kEtherTypeRarp;
}

}  // namespace urnic::wire
