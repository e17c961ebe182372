// CRC-32 of IEEE 802.3 (reflected 0xEDB88320) as the ICRC uses it, alone and fused with a copy. The first
// variant that the CPU has is chosen at start, or the fastest by measuring; all give the same result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "rnic/wire/crc/masked_head.h"

namespace urnic::wire {

/// Raw register update: start with 0xFFFFFFFF, complement at the end.
[[nodiscard]] std::uint32_t crc32_update(std::uint32_t crc, const std::byte* data, std::size_t length_bytes);

/// Copies `length_bytes` from `from` to `to` (no overlap) and updates the register over them in the same
/// pass.
[[nodiscard]] std::uint32_t crc32_copy(std::uint32_t crc, std::byte* to, const std::byte* from,
                                       std::size_t length_bytes);

/// The register over an ICRC's head and, in the same run, over the data that follows it.
[[nodiscard]] std::uint32_t crc32_headed_update(const MaskedHead& head, const std::byte* data,
                                                std::size_t length_bytes);
/// The same, and the data is copied as crc32_copy() does.
[[nodiscard]] std::uint32_t crc32_headed_copy(const MaskedHead& head, std::byte* to, const std::byte* from,
                                              std::size_t length_bytes);

/// Name of the variant in use: "vpclmulqdq-avx512", "vpclmulqdq-avx2", "pclmulqdq", "table".
[[nodiscard]] const char* crc32_variant();

/// Runs each variant for some microseconds by the clock `now` (nanoseconds), and uses the fastest from here
/// on. Before other threads are started.
void choose_crc32_variant(TimeNs (*now)());

}  // namespace urnic::wire
