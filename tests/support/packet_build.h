// Writes any packet of the RoCE and InfiniBand family, right or wrong: the other way round from dissecting
// one.
#pragma once

#include <cstddef>
#include <span>

#include "rnic/wire/dissect/packet.h"

namespace urnic::wire {

/// Writes the packet with right lengths, pad bytes, checksums and CRCs; PFC frames get Ethernet's padding.
/// EtherTypes, LRH.LNH and IPv6 next headers follow from what the packet has; everything else is written as
/// it is given. Returns the length, 0 when `out` is too small or the packet cannot be expressed.
[[nodiscard]] std::size_t build_packet(const Packet& packet, std::span<std::byte> out);

}  // namespace urnic::wire
