// Atomic operations on application memory (IBA 9.4.5, annex A19).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "rnic/mem/address_space.h"

namespace urnic {

struct AtomicOperation {
    bool is_swap = false;  // CmpSwap, else FetchAdd
    std::uint64_t swap_or_add = 0;
    std::uint64_t compare = 0;
};

/// Carries out the operation on 8 bytes of application memory. Memory that is mapped here changes by one CPU
/// atomic, so that the application's own atomics see it (IBV_ATOMIC_GLOB); other memory by read and write.
/// Returns the value before; nothing when the memory cannot be reached.
[[nodiscard]] std::optional<std::uint64_t> execute_atomic(const MemoryPiece& piece,
                                                          const AtomicOperation& operation);

/// Writes 8 bytes so that nobody sees a part of them, in memory that is mapped here; other memory by an
/// ordinary write. Returns whether the memory can be reached.
[[nodiscard]] bool write_atomically(const MemoryPiece& piece, std::span<const std::byte, 8> bytes);

}  // namespace urnic
