// Time as a worker's QPs see it: the clock without the time that the worker was kept from running. A QP's
// timers measure how long its peer was silent, and a worker that was not there to listen cannot tell.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace urnic::dataplane {

class AttendedTime {
  public:
    /// More than a round of the worker's loop takes: what is beyond that was spent elsewhere.
    static constexpr TimeNs kRoundNs = 200'000;

    explicit AttendedTime(TimeNs now) : clock_(now), time_(now) {}

    /// The time at the clock's `now`. Never goes back, never goes faster than the clock.
    TimeNs advance(TimeNs now) {
        time_ += std::min(now - clock_, attended_ns_);
        clock_ = now;
        attended_ns_ = kRoundNs;
        return time_;
    }
    /// The worker slept until something happened, or until `until` in the QPs' time (kNever: without a
    /// limit). Sleeping is listening: whatever arrives ends it.
    void slept(TimeNs until) {
        attended_ns_ = until == kNever ? kNever : std::max(until, time_) - time_ + kRoundNs;
    }
    /// A time of the QPs as the clock will show it if the worker is not kept from running until then.
    [[nodiscard]] TimeNs on_clock(TimeNs time) const {
        return time == kNever ? kNever : clock_ + (std::max(time, time_) - time_);
    }

  private:
    TimeNs clock_;
    TimeNs time_;
    TimeNs attended_ns_ = kRoundNs;
};

}  // namespace urnic::dataplane
