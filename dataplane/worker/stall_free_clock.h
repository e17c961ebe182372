// The clock without the time in which the worker was kept from running. A QP's timers measure how long its
// peer was silent, which a worker that did not run cannot know. Its time is called protocol time.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace urnic::dataplane {

class StallFreeClock {
  public:
    /// More than a round of the worker's loop takes: the rest of a longer one is time in which it did not
    /// run.
    static constexpr TimeNs kRoundNs = 200'000;

    explicit StallFreeClock(TimeNs now) : clock_(now), time_(now) {}

    /// The time at the clock's `now`. Never goes back, never goes faster than the clock.
    TimeNs advance(TimeNs now) {
        time_ += std::min(now - clock_, allowance_ns_);
        clock_ = now;
        allowance_ns_ = kRoundNs;
        return time_;
    }
    /// The worker slept until something happened, or until `until` in protocol time (kNever: without a
    /// limit). That is no stall: whatever arrives ends the sleep.
    void slept(TimeNs until) {
        allowance_ns_ = until == kNever ? kNever : std::max(until, time_) - time_ + kRoundNs;
    }
    /// Converts a protocol time to the time of the clock, which is later if the worker stalls until then.
    [[nodiscard]] TimeNs to_clock(TimeNs time) const {
        return time == kNever ? kNever : clock_ + (std::max(time, time_) - time_);
    }

  private:
    TimeNs clock_;
    TimeNs time_;
    TimeNs allowance_ns_ = kRoundNs;
};

}  // namespace urnic::dataplane
