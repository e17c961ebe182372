// Atomic operations of the responder: carried out once, replayed from their saved results (IBA 9.7.5.1.3).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/psn.h"
#include "rnic/mem/memory.h"
#include "rnic/qp/limits.h"

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
/// ordinary write. False: the memory cannot be reached.
[[nodiscard]] bool write_atomically(const MemoryPiece& piece, std::span<const std::byte, 8> bytes);

/// Results of the last atomics of one QP.
class SavedAtomics {
  public:
    void reset() { count_ = 0; }
    void save(Psn psn, std::uint64_t original) { entries_[count_++ % kMaxRdAtomic] = {original, psn}; }
    /// The result of the request with this PSN if it is among the last `depth`.
    [[nodiscard]] std::optional<std::uint64_t> find(Psn psn, std::uint32_t depth) const {
        for (std::uint32_t back = 1; back <= depth && back <= count_ && back <= kMaxRdAtomic; ++back) {
            const Entry& entry = entries_[(count_ - back) % kMaxRdAtomic];
            if (entry.psn == psn) {
                return entry.original;
            }
        }
        return std::nullopt;
    }

  private:
    struct Entry {
        std::uint64_t original = 0;
        Psn psn;
    };
    std::uint64_t count_ = 0;
    std::array<Entry, kMaxRdAtomic> entries_{};
};

}  // namespace urnic
