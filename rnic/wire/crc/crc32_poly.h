// Arithmetic of the CRC-32 polynomial, all at compile time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace urnic::wire {

inline constexpr std::uint32_t kCrc32Reflected = 0xedb8'8320U;
inline constexpr std::uint32_t kCrc32Normal = 0x04c1'1db7U;

constexpr std::uint32_t reflect32(std::uint32_t value) {
    std::uint32_t result = 0;
    for (unsigned bit = 0; bit < 32; ++bit) {
        result |= ((value >> bit) & 1U) << (31U - bit);
    }
    return result;
}

/// x^n mod P, reflected, and shifted left by one as a carry-less product of reflected numbers wants it
/// (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction").
constexpr std::uint64_t power_of_x(unsigned n) {
    std::uint32_t remainder = 1;
    for (unsigned i = 0; i < n; ++i) {
        remainder = (remainder << 1U) ^ ((remainder >> 31U) != 0 ? kCrc32Normal : 0U);
    }
    return std::uint64_t{reflect32(remainder)} << 1U;
}

/// The pair of factors that moves a 128-bit accumulator `bits` bits ahead: for its low and its high half.
struct FoldFactors {
    std::uint64_t low;
    std::uint64_t high;
};
constexpr FoldFactors fold_factors(unsigned bits) { return {power_of_x(bits + 32), power_of_x(bits - 32)}; }

// The values that the paper prints for 512 and 128 bits.
static_assert(power_of_x(512 + 32) == 0x1'5444'2bd4 && power_of_x(512 - 32) == 0x1'c6e4'1596);
static_assert(power_of_x(128 + 32) == 0x1'7519'97d0 && power_of_x(128 - 32) == 0x0'ccaa'009e);

/// kSlices[k][b]: the register after byte b and k zero bytes, from a register of zero.
using Crc32Slices = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr Crc32Slices make_slices() {
    Crc32Slices slices{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kCrc32Reflected : 0U);
        }
        slices[0][byte] = crc;
    }
    for (std::size_t k = 1; k < slices.size(); ++k) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = slices[k - 1][byte];
            slices[k][byte] = (before >> 8U) ^ slices[0][before & 0xffU];
        }
    }
    return slices;
}
inline constexpr Crc32Slices kCrc32Slices = make_slices();

}  // namespace urnic::wire
