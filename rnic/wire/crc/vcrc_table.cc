// The variant CRC with eight tables: 8 bytes a step.
#include "base/bytes.h"
#include "rnic/wire/crc/vcrc_variants.h"

namespace urnic::wire {

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
