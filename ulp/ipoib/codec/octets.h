/// Big-endian fields in octets, and the Internet checksum.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Sum of 16-bit words with an odd octet padded by zero (RFC 1071), not folded.
[[nodiscard]] constexpr std::uint64_t sum_words(ConstOctets octets, std::uint64_t sum = 0) {
    std::size_t at = 0;
    for (; at + 1 < octets.size(); at += 2) {
        sum += u16_at(octets, at);
    }
    return at < octets.size() ? sum + (std::uint64_t{u8_at(octets, at)} << 8U) : sum;
}
[[nodiscard]] constexpr std::uint16_t fold(std::uint64_t sum) {
    while (sum >> 16U != 0) {
        sum = (sum & 0xFFFFU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(sum);
}

}  // namespace urnic::ipoib
