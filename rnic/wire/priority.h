// The priority of a frame (IEEE 802.1Q): that of its VLAN tag; without one the class that the first three
// bits of the DSCP stand for (RFC 2474 4.2.2.2), which is how switches of RoCE networks sort untagged
// packets.
#pragma once

#include <cstdint>

#include "rnic/wire/layout.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

inline constexpr std::uint32_t kPriorities = 8;

/// 0 to 7, of a frame of at least 16 bytes; 0 of one that is neither tagged nor IP.
[[nodiscard]] inline std::uint8_t priority_of(const std::uint8_t* frame) {
    const auto type = static_cast<std::uint16_t>(frame[12] << 8U | frame[13]);
    switch (type) {
        case kEtherTypeVlan:
            return static_cast<std::uint8_t>(frame[14] >> 5U);
        case kEtherTypeIpv4:
            return static_cast<std::uint8_t>(frame[15] >> 5U);
        case kEtherTypeIpv6:
            return static_cast<std::uint8_t>((frame[14] & 0x0fU) >> 1U);
        default:
            return 0;
    }
}

/// Of every packet that goes by the path.
[[nodiscard]] inline std::uint8_t priority_of(const Path& path) { return priority_of(path.bytes.data()); }

}  // namespace urnic::wire
