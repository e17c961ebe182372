// The gaps between CNPs that several QPs have in common. A table of fixed size, whatever the network sends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace urnic::congestion {

/// One device's; its workers use it at the same time, without locks. Two keys that want the same place push
/// each other out: then a CNP goes too early, and none is ever kept back for good.
class CnpGaps {
  public:
    /// Returns whether a CNP for that key may go at `now`; then the next may not before `gap_ns` later. `key`
    /// is well mixed.
    [[nodiscard]] bool take(std::uint64_t key, TimeNs now, TimeNs gap_ns) {
        std::atomic<std::uint64_t>& place = places_[key % kPlaces];
        const std::uint64_t tag = (key >> kTimeBits) | 1U;
        std::uint64_t seen = place.load(std::memory_order_relaxed);
        const bool is_same = seen >> kTimeBits == tag;
        if (is_same && ((now - seen) & kTimeMask) < gap_ns) {
            return false;
        }
        // Another worker may be faster: then it sends the CNP.
        return place.compare_exchange_strong(seen, tag << kTimeBits | (now & kTimeMask),
                                             std::memory_order_relaxed);
    }

  private:
    static constexpr std::uint32_t kPlaces = 1024;
    static constexpr unsigned kTimeBits = 48;  // of nanoseconds: more than three days
    static constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << kTimeBits) - 1;

    std::array<std::atomic<std::uint64_t>, kPlaces> places_{};  // tag, and when the last CNP went
};

}  // namespace urnic::congestion
