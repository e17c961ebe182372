// How often something may be done.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/time.h"

namespace urnic {

/// At most `kTimes` times in any kIntervalNs.
template <std::size_t kTimes, TimeNs kIntervalNs>
class RateLimit {
  public:
    /// Returns whether it may be done at `now`, and counts it then.
    [[nodiscard]] bool take(TimeNs now) {
        if (now < free_at_[next_]) {
            return false;
        }
        free_at_[next_] = now + kIntervalNs;
        next_ = (next_ + 1) % kTimes;
        return true;
    }

  private:
    std::array<TimeNs, kTimes> free_at_{};  // when each may come again, the oldest at next_
    std::size_t next_ = 0;
};

/// Time that may be spent: kMostNs at once, and one part in kPart of what passes.
template <TimeNs kMostNs, TimeNs kPart>
class TimeBudget {
  public:
    /// Returns whether there is some at `now`. What is spent then may be more than what is left.
    [[nodiscard]] bool has_some(TimeNs now) {
        spent_ns_ -= std::min(spent_ns_, (now - since_) / kPart);
        since_ = now;
        return spent_ns_ < kMostNs;
    }
    void spend(TimeNs time_ns) { spent_ns_ += time_ns; }

  private:
    TimeNs spent_ns_ = 0;  // and not forgotten
    TimeNs since_ = 0;
};

}  // namespace urnic
