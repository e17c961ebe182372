// What the first headers of a frame say, for those that need no more: switches, and whoever tells protocols
// apart. Nothing is checked but that the bytes are there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "rnic/wire/layout.h"

namespace urnic::wire {

struct Peek {
    std::uint16_t ether_type = 0;              // behind a VLAN tag; 0: the frame is too short
    std::uint16_t vlan_tci = 0;                // 0: no tag, or one of priority 0 without a VLAN
    std::uint32_t l3_offset = kEthernetBytes;  // behind a VLAN tag
    bool is_ip = false;                        // IPv4 or IPv6, at least 20 bytes of it
    bool is_ipv4 = false;
    std::uint8_t traffic_class = 0;  // of IP: DSCP << 2 | ECN

    [[nodiscard]] bool is_tagged() const { return l3_offset != kEthernetBytes; }
    /// As priority_of() has it.
    [[nodiscard]] std::uint8_t priority() const {
        return static_cast<std::uint8_t>(is_tagged() ? vlan_tci >> 13U : traffic_class >> 5U);
    }
};

[[nodiscard]] inline Peek peek(std::span<const std::byte> frame) {
    Peek seen;
    if (frame.size() < kEthernetBytes) {
        return seen;
    }
    std::uint16_t type = load_be16(&frame[kEthernetBytes - 2]);
    if (type == kEtherTypeVlan) {
        if (frame.size() < kEthernetBytes + kVlanTagBytes) {
            return seen;
        }
        seen.vlan_tci = load_be16(&frame[kEthernetBytes]);
        seen.l3_offset = kEthernetBytes + kVlanTagBytes;
        type = load_be16(&frame[kEthernetBytes + kVlanTagBytes - 2]);
    }
    seen.ether_type = type;
    seen.is_ipv4 = type == kEtherTypeIpv4;
    seen.is_ip = (seen.is_ipv4 || type == kEtherTypeIpv6) && frame.size() >= seen.l3_offset + kIpv4Bytes;
    if (seen.is_ip) {
        const std::uint16_t word = load_be16(&frame[seen.l3_offset]);
        seen.traffic_class = static_cast<std::uint8_t>(seen.is_ipv4 ? word : word >> 4U);
    }
    return seen;
}

}  // namespace urnic::wire
