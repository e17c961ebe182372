// Unaligned big-endian and little-endian access to bytes of a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace urnic::wire {

[[nodiscard]] inline std::uint16_t load_be16(const std::byte* from) {
    std::uint16_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return __builtin_bswap16(value);
}
[[nodiscard]] inline std::uint32_t load_be32(const std::byte* from) {
    std::uint32_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return __builtin_bswap32(value);
}
[[nodiscard]] inline std::uint64_t load_be64(const std::byte* from) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return __builtin_bswap64(value);
}
inline void store_be16(std::byte* to, std::uint16_t value) {
    value = __builtin_bswap16(value);
    std::memcpy(to, &value, sizeof value);
}
inline void store_be32(std::byte* to, std::uint32_t value) {
    value = __builtin_bswap32(value);
    std::memcpy(to, &value, sizeof value);
}
inline void store_be64(std::byte* to, std::uint64_t value) {
    value = __builtin_bswap64(value);
    std::memcpy(to, &value, sizeof value);
}
/// Little-endian and host order are the same on the only machines this runs on (x86-64).
[[nodiscard]] inline std::uint16_t load_le16(const std::byte* from) {
    std::uint16_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
}
[[nodiscard]] inline std::uint32_t load_le32(const std::byte* from) {
    std::uint32_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
}
[[nodiscard]] inline std::uint64_t load_le64(const std::byte* from) {
    std::uint64_t value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
}
inline void store_le16(std::byte* to, std::uint16_t value) { std::memcpy(to, &value, sizeof value); }
inline void store_le32(std::byte* to, std::uint32_t value) { std::memcpy(to, &value, sizeof value); }

}  // namespace urnic::wire
