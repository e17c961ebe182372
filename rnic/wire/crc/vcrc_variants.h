// The implementations behind vcrc.h, of which each variant of crc32_variants.h has one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace urnic::wire {

inline constexpr std::size_t kVcrcSlices = 8;
using VcrcTables = std::array<std::array<std::uint16_t, 256>, kVcrcSlices>;

/// Table k has the register after a byte and k bytes of zero, from a register of zero.
constexpr VcrcTables make_vcrc_tables() {
    constexpr std::uint16_t kReflected = 0xd008;  // 0x100B, its bits turned round
    VcrcTables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 1U) != 0 ? (crc >> 1U) ^ kReflected : crc >> 1U;
        }
        tables[0][byte] = static_cast<std::uint16_t>(crc);
    }
    for (std::size_t k = 1; k < kVcrcSlices; ++k) {
        for (std::uint32_t byte = 0; byte < 256; ++byte) {
            const std::uint16_t before = tables[k - 1][byte];
            tables[k][byte] = static_cast<std::uint16_t>((before >> 8U) ^ tables[0][before & 0xffU]);
        }
    }
    return tables;
}
inline constexpr VcrcTables kVcrcTables = make_vcrc_tables();

/// Raw register update: start with 0xFFFF, complement at the end.
[[nodiscard]] std::uint16_t vcrc_table(std::uint16_t crc, std::span<const std::byte> data);
[[nodiscard]] std::uint16_t vcrc_pclmul(std::uint16_t crc, std::span<const std::byte> data);

}  // namespace urnic::wire
