// The invariant CRC (IBA 7.8.1, annex A17.3.3): CRC-32 over the packet from its IP header on, with the fields
// that routers may change replaced by ones.
#pragma once

#include <array>
#include <cstddef>

#include "rnic/wire/crc/masked_head.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

/// Most bytes that a head has: all headers.
inline constexpr std::size_t kMaxIcrcHeadBytes = 128;
static_assert(kMaxIcrcHeadBytes >= kIpv6Bytes + kUdpBytes + kMaxHeaderBytes);

using IcrcOnes = std::array<std::byte, kMaxIcrcHeadBytes>;

/// The bits of IP, UDP and BTH that count as ones.
constexpr IcrcOnes icrc_ones(bool is_ipv4) {
    constexpr std::byte kOnes{0xff};
    IcrcOnes ones{};
    if (is_ipv4) {
        ones[kIpv4Tos] = kOnes;
        ones[kIpv4Ttl] = kOnes;
        ones[kIpv4Checksum] = kOnes;
        ones[kIpv4Checksum + 1] = kOnes;
    } else {
        ones[0] = std::byte{0x0f};  // the version stays; traffic class and flow label go
        ones[1] = kOnes;
        ones[2] = kOnes;
        ones[3] = kOnes;
        ones[kIpv6HopLimit] = kOnes;
    }
    const std::size_t udp = is_ipv4 ? kIpv4Bytes : kIpv6Bytes;
    ones[udp + kUdpChecksum] = kOnes;
    ones[udp + kUdpChecksum + 1] = kOnes;
    ones[udp + kUdpBytes + kBthResv8a] = kOnes;
    return ones;
}
inline constexpr IcrcOnes kIcrcOnesIpv4 = icrc_ones(true);
inline constexpr IcrcOnes kIcrcOnesIpv6 = icrc_ones(false);

/// The first `length_bytes` of a packet's ICRC. `l3` points to IP, UDP, BTH (all of them) and what follows,
/// up to kMaxIcrcHeadBytes.
[[nodiscard]] inline MaskedHead icrc_head(const std::byte* l3, std::size_t length_bytes, bool is_ipv4) {
    return {l3, (is_ipv4 ? kIcrcOnesIpv4 : kIcrcOnesIpv6).data(), length_bytes};
}

}  // namespace urnic::wire
