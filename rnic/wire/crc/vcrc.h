// The variant CRC of native InfiniBand (IBA 7.8.2): links check it, and switches make it anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

/// Over all bytes from the LRH to the last one before the VCRC: polynomial 0x100B, each byte least
/// significant bit first, preset to ones, complemented. On the wire least significant byte first.
[[nodiscard]] std::uint16_t variant_crc(std::span<const std::byte> covered);

}  // namespace urnic::wire
