// The variant CRC by carry-less multiplication: what its implementations share.
#pragma once

#include <array>

#include "rnic/wire/crc/crc32_clmul.h"
#include "rnic/wire/crc/vcrc_variants.h"

namespace urnic::wire::clmul {

/// x^n mod P as a reflected number of 64 bits. The carry-less product of two of these, as a reflected number
/// of 128 bits, is their product times x.
constexpr std::uint64_t vcrc_power_of_x(unsigned n) {
    constexpr std::uint32_t kPolynomial = 0x1'100b;
    std::uint32_t remainder = 1;
    for (unsigned i = 0; i < n; ++i) {
        remainder = (remainder << 1U) ^ ((remainder >> 15U) != 0 ? kPolynomial : 0U);
    }
    std::uint64_t reflected = 0;
    for (unsigned bit = 0; bit < 16; ++bit) {
        reflected |= std::uint64_t{remainder >> bit & 1U} << (63U - bit);
    }
    return reflected;
}

/// That move a 128-bit accumulator `bits` bits ahead: its low half, which comes first, has 64 more before it.
constexpr FoldFactors vcrc_factors(unsigned bits) {
    return {vcrc_power_of_x(bits + 63), vcrc_power_of_x(bits - 1)};
}

inline constexpr FoldFactors kVcrcFold128 = vcrc_factors(128);
inline constexpr FoldFactors kVcrcFold256 = vcrc_factors(256);
inline constexpr FoldFactors kVcrcFold384 = vcrc_factors(384);
inline constexpr FoldFactors kVcrcFold512 = vcrc_factors(512);

/// The register after `accumulator`, which stands for everything before `from`, and the bytes there. What is
/// left of less than 128 bits goes through the tables, with the accumulator's own bits before it.
URNIC_PCLMUL_INLINE std::uint16_t vcrc_finish(__m128i accumulator, const std::byte* from, std::size_t count) {
    const __m128i by_128 = factors(kVcrcFold128);
    for (; count >= 16; count -= 16, from += 16) {
        accumulator = fold(accumulator, by_128, load_once(from));
    }
    std::array<std::byte, 16> last;
    store16(last.data(), accumulator);
    return vcrc_table(vcrc_table(0, last), {from, count});
}

}  // namespace urnic::wire::clmul
