// The results of the last atomics of one QP. A duplicate of an atomic request is answered from here and not
// executed again (IBA 9.7.5.1.3; IBA calls an entry a responder resource).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "rnic/qp/limits.h"

namespace urnic {

class AtomicReplayCache {
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
