// Whether the threads that share a core with this one compute. Used at both ends: by a worker that found
// nothing to do and by an application that polls an empty CQ.
//
// Among threads that wait, a yield costs a microsecond and is the fastest way to take turns. Beside a thread
// that computes it gives away a time slice of milliseconds, and since Linux 6.18 virtual time as well
// (EEVDF); there a thread has to sleep, because the scheduler puts one that is woken before those that
// compute.
#pragma once

#include <algorithm>
#include <cstdint>

namespace urnic {

class YieldMonitor {
  public:
    static constexpr std::uint64_t kSlowNs = 500'000;
    /// Slow yields that are proof. A hypervisor takes the CPU away as well, but not at every other yield.
    static constexpr std::uint32_t kSlowYields = 3;
    /// Slow yields count no more after so many quick ones, when these have also had this part of the time
    /// that the last slow one took: a thread that was away for milliseconds may be left alone for some 50 us.
    static constexpr std::uint32_t kQuickYields = 16;
    static constexpr std::uint64_t kQuickPart = 8;
    static constexpr std::uint64_t kMinContendedNs = 100'000'000;
    static constexpr std::uint64_t kMaxContendedNs = 4 * kMinContendedNs;

    /// Returns whether a thread that waits should sleep instead of yielding. `now_ns`: of a clock that never
    /// goes back.
    [[nodiscard]] bool contended(std::uint64_t now_ns) const { return now_ns < contended_until_ns_; }

    /// A yield ended at `now_ns` that took `took_ns`.
    void on_yield(std::uint64_t now_ns, std::uint64_t took_ns) {
        if (took_ns <= kSlowNs) {
            if (++quick_ >= kQuickYields && now_ns >= forgets_at_ns_) {
                slow_ = 0;
                next_ns_ = kMinContendedNs;
            }
            return;
        }
        quick_ = 0;
        if (++slow_ >= kSlowYields) {
            // The next time is twice as long. All end at whole multiples, for all threads together: two that
            // wait for each other by looking at memory are slow to each other until both yield again.
            contended_until_ns_ = (now_ns + next_ns_ / 2) / next_ns_ * next_ns_ + next_ns_;
            next_ns_ = std::min(2 * next_ns_, kMaxContendedNs);
            slow_ = 0;
        }
        forgets_at_ns_ = std::max(now_ns, contended_until_ns_) + took_ns / kQuickPart;
    }

  private:
    std::uint32_t slow_ = 0;
    std::uint32_t quick_ = 0;  // since the last slow one
    std::uint64_t contended_until_ns_ = 0;
    std::uint64_t forgets_at_ns_ = 0;  // after enough quick ones
    std::uint64_t next_ns_ = kMinContendedNs;
};

}  // namespace urnic
