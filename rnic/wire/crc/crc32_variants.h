// The implementations behind crc32.h, one for each instruction set, so that tests and benchmarks can run
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "rnic/wire/crc/masked_head.h"

namespace urnic::wire {

struct Crc32Variant {
    const char* name;
    bool (*supported)();  // by this CPU and its operating system
    std::uint32_t (*update)(std::uint32_t crc, const std::byte* data, std::size_t length_bytes);
    std::uint32_t (*copy)(std::uint32_t crc, std::byte* to, const std::byte* from, std::size_t length_bytes);
    void (*copy_payload)(std::byte* to, const std::byte* from, std::size_t length_bytes);
    // From the start: over the head, then over the data that follows it elsewhere.
    std::uint32_t (*headed_update)(const MaskedHead& head, const std::byte* data, std::size_t length_bytes);
    std::uint32_t (*headed_copy)(const MaskedHead& head, std::byte* to, const std::byte* from,
                                 std::size_t length_bytes);
    // The variant CRC of native InfiniBand: the register over more data.
    std::uint16_t (*vcrc)(std::uint16_t crc, std::span<const std::byte> data);
};

extern const Crc32Variant kCrc32Avx512;
extern const Crc32Variant kCrc32Avx2;
extern const Crc32Variant kCrc32Pclmul;
extern const Crc32Variant kCrc32Table;

/// All variants, the fastest first; the last one runs everywhere.
[[nodiscard]] std::span<const Crc32Variant* const> crc32_variants();

/// The one of `variants` that copies packets fastest by the clock `now` (nanoseconds); a later one only if it
/// is faster by a quarter than all before it. At least one must be supported.
[[nodiscard]] const Crc32Variant& fastest_variant(std::span<const Crc32Variant* const> variants,
                                                  TimeNs (*now)());

}  // namespace urnic::wire
