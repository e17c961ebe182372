/// Big-endian fields in octets, and the Internet checksum.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace urnic::ipoib {

using ConstOctets = std::span<const std::byte>;
using Octets = std::span<std::byte>;

[[nodiscard]] constexpr std::uint8_t u8_at(ConstOctets octets, std::size_t at) {
    return std::to_integer<std::uint8_t>(octets[at]);
}
[[nodiscard]] constexpr std::uint16_t u16_at(ConstOctets octets, std::size_t at) {
    return static_cast<std::uint16_t>(u8_at(octets, at) << 8U | u8_at(octets, at + 1));
}
[[nodiscard]] constexpr std::uint32_t u32_at(ConstOctets octets, std::size_t at) {
    return static_cast<std::uint32_t>(u16_at(octets, at)) << 16U | u16_at(octets, at + 2);
}
constexpr void put_u8(Octets octets, std::size_t at, std::uint8_t value) {
    octets[at] = static_cast<std::byte>(value);
}
constexpr void put_u16(Octets octets, std::size_t at, std::uint16_t value) {
    put_u8(octets, at, static_cast<std::uint8_t>(value >> 8U));
    put_u8(octets, at + 1, static_cast<std::uint8_t>(value));
}
constexpr void put_u32(Octets octets, std::size_t at, std::uint32_t value) {
    put_u16(octets, at, static_cast<std::uint16_t>(value >> 16U));
    put_u16(octets, at + 2, static_cast<std::uint16_t>(value));
}

[[nodiscard]] constexpr std::uint16_t fold(std::uint64_t sum) {
    while (sum >> 16U != 0) {
        sum = (sum & 0xFFFFU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(sum);
}

/// Adds the sum of 16-bit words with an odd octet padded by zero to `sum`, not folded. The sum does not
/// depend on the byte order in which it is made (RFC 1071, section 2), so words of the machine are added.
[[nodiscard]] inline std::uint64_t sum_words(ConstOctets octets, std::uint64_t sum = 0) {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    const auto add = [&](std::uint64_t word) {
        low += word & 0xFFFFFFFFU;
        high += word >> 32U;
    };
    std::array<std::uint64_t, 4> words{};
    for (; octets.size() >= sizeof words; octets = octets.subspan(sizeof words)) {
        std::memcpy(words.data(), octets.data(), sizeof words);
        for (const std::uint64_t word : words) {
            add(word);
        }
    }
    words = {};
    std::copy(octets.begin(), octets.end(), std::as_writable_bytes(std::span(words)).begin());
    for (const std::uint64_t word : words) {
        add(word);
    }
    const std::uint16_t folded = fold(low + high);
    const bool is_little = std::endian::native == std::endian::little;
    return sum + (is_little ? static_cast<std::uint16_t>(folded << 8U | folded >> 8U) : folded);
}

}  // namespace urnic::ipoib
