// The invariant CRC (IBA 7.8.1, annex A17.3.3): CRC-32 over the packet from its IP header on, with the fields
// that routers may change replaced by ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

/// Most bytes that icrc_begin() takes: all headers, and 64 bytes of payload after the usual ones.
inline constexpr std::size_t kMaxIcrcHeadBytes = 192;
static_assert(kMaxIcrcHeadBytes >= kIpv6Bytes + kUdpBytes + kMaxHeaderBytes);

/// The CRC register after the eight bytes of ones that stand for the LRH and the first `length_bytes` of the
/// packet with their variant fields masked. `l3` points to IP, UDP, BTH (all of them) and what follows, up to
/// kMaxIcrcHeadBytes: one run over more bytes is cheaper than two.
[[nodiscard]] std::uint32_t icrc_begin(const std::byte* l3, std::size_t length_bytes, bool is_ipv4);

}  // namespace urnic::wire
