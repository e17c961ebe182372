// The implementations behind vcrc.h, of which each variant of crc32_variants.h has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

/// Raw register update: start with 0xFFFF, complement at the end.
[[nodiscard]] std::uint16_t vcrc_table(std::uint16_t crc, std::span<const std::byte> data);
[[nodiscard]] std::uint16_t vcrc_pclmul(std::uint16_t crc, std::span<const std::byte> data);

}  // namespace urnic::wire
