// The variant CRC with eight tables: 8 bytes a step.
#include <array>

#include "base/bytes.h"
#include "rnic/wire/crc/vcrc_variants.h"

namespace urnic::wire {

namespace {

constexpr std::size_t kVcrcSlices = 8;
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
constexpr VcrcTables kVcrcTables = make_vcrc_tables();

}  // namespace

std::uint16_t vcrc_table(std::uint16_t crc, std::span<const std::byte> data) {
    std::uint32_t value = crc;
    const std::byte* at = data.data();
    std::size_t left = data.size();
    for (; left >= kVcrcSlices; left -= kVcrcSlices, at += kVcrcSlices) {
        const std::uint64_t word = load_le64(at) ^ value;
        value = 0;
        for (std::size_t i = 0; i < kVcrcSlices; ++i) {
            value ^= kVcrcTables[kVcrcSlices - 1 - i][word >> (8 * i) & 0xffU];
        }
    }
    for (; left > 0; --left, ++at) {
        value = (value >> 8U) ^ kVcrcTables[0][(value ^ std::to_integer<std::uint32_t>(*at)) & 0xffU];
    }
    return static_cast<std::uint16_t>(value);
}

}  // namespace urnic::wire
