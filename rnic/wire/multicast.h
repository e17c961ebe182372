// Multicast of RoCEv2: which GIDs name a group, and the Ethernet address of its frames.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rnic/wire/packet_view.h"

namespace urnic::wire {

/// The destination QP of every multicast packet (IBA 10.5.2).
inline constexpr std::uint32_t kMulticastQp = 0xff'ffff;

/// ::ffff:224.0.0.0/100 (an IPv4 group) or ff00::/8.
[[nodiscard]] inline bool is_multicast(const Gid& gid) {
    return gid[0] == 0xff || (is_ipv4_mapped(gid) && (gid[12] & 0xf0U) == 0xe0U);
}

/// Ethernet's group bit.
[[nodiscard]] inline bool is_multicast(const Mac& mac) { return (mac[0] & 1U) != 0; }

/// The same of a frame, which holds at least its first byte.
[[nodiscard]] inline bool is_group_frame(const std::byte* frame) {
    return (frame[0] & std::byte{1}) != std::byte{0};
}

/// Where frames for the group go: 01:00:5e and the low 23 bits of an IPv4 group (RFC 1112 6.4), 33:33 and the
/// low 32 bits of an IPv6 one (RFC 2464 7).
[[nodiscard]] inline Mac multicast_mac(const Gid& group) {
    if (group[0] == 0xff) {
        return {0x33, 0x33, group[12], group[13], group[14], group[15]};
    }
    return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(group[13] & 0x7fU), group[14], group[15]};
}

}  // namespace urnic::wire
