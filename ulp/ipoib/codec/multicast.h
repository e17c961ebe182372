/// Multicast GIDs of a link (RFC 4391, section 4).
#pragma once

#include <cstdint>
#include <optional>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

using Ipv6Address = std::array<std::byte, 16>;

/// What all MGIDs of a link have in common.
struct LinkScope {
    /// With bit 15 set: full membership (section 4).
    std::uint16_t pkey = 0xFFFF;
    /// 2: the local subnet (section 4.1).
    std::uint8_t scope = 2;
};

[[nodiscard]] Gid broadcast_gid(const LinkScope& link);
/// Of an IPv4 multicast address; 255.255.255.255 is the broadcast GID.
[[nodiscard]] Gid ipv4_group_gid(const LinkScope& link, std::uint32_t address);
[[nodiscard]] Gid ipv6_group_gid(const LinkScope& link, const Ipv6Address& address);

/// The group that an IP packet goes to, by its destination; none: that is no multicast address, or no IP
/// packet.
[[nodiscard]] std::optional<Gid> group_of_packet(const LinkScope& link, std::uint16_t type,
                                                 ConstOctets packet);
/// The Ethernet address of an IP packet's destination (RFC 1112, 6.4; RFC 2464, 7), none for unicast.
[[nodiscard]] std::optional<Mac> multicast_mac(std::uint16_t type, ConstOctets packet);

}  // namespace urnic::ipoib
