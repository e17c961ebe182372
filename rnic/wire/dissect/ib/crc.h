// ICRC of every kind of packet (IBA 7.8), over bytes as they lie on the wire. For decoding and tests: frames
// of the packet path go through icrc.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

/// What the bytes under an ICRC begin with.
enum class IcrcScope : std::uint8_t {
    kIpv4,       // RoCEv2: IPv4, UDP, BTH
    kIpv6,       // RoCEv2: IPv6, UDP, BTH
    kGrh,        // RoCEv1: GRH, BTH
    kLrh,        // native: LRH, BTH
    kLrhAndGrh,  // native: LRH, GRH, BTH
};

/// The ICRC of a packet: `covered` goes from the first byte that the scope names to the last one before the
/// ICRC. On the wire the ICRC stands least significant byte first. `covered` holds at least the headers that
/// the scope names.
[[nodiscard]] std::uint32_t invariant_crc(IcrcScope scope, std::span<const std::byte> covered);
/// Bytes that invariant_crc() needs at least.
[[nodiscard]] std::size_t least_covered_bytes(IcrcScope scope);

}  // namespace urnic::wire
