/// Frames on both sides: Ethernet at the TAP device, the encapsulation of RFC 4391 (section 6) in UD
/// datagrams.
#pragma once

#include <cstdint>
#include <optional>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

inline constexpr std::uint16_t kTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kTypeArp = 0x0806;
inline constexpr std::uint16_t kTypeIpv6 = 0x86DD;
inline constexpr std::size_t kEthernetHeaderOctets = 14;
inline constexpr std::size_t kEncapsulationOctets = 4;
inline constexpr std::size_t kIpv4HeaderOctets = 20;
inline constexpr std::size_t kIpv6HeaderOctets = 40;
inline constexpr std::uint8_t kIcmpv6 = 58;
/// In front of each UD receive (IBA): a GRH, or an IPv4 header in its last 20 octets (RoCE v2).
inline constexpr std::size_t kGrhOctets = 40;
/// The default IPoIB MTU, and the largest of an InfiniBand path (section 7).
inline constexpr std::uint32_t kDefaultMtu = 2044;
inline constexpr std::uint32_t kLargestUdMtu = 4092;

/// The header of section 6; its second half is reserved.
[[nodiscard]] inline std::array<std::byte, kEncapsulationOctets> encapsulation(std::uint16_t type) {
    std::array<std::byte, kEncapsulationOctets> header{};
    put_u16(header, 0, type);
    return header;
}

/// Source GID from the room of a GRH: of an IPv6 header to `own` or to a group, or of an IPv4 header; none:
/// neither.
[[nodiscard]] std::optional<Gid> source_gid(ConstOctets grh, const Gid& own);

}  // namespace urnic::ipoib
