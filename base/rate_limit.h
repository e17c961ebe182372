// How often something may be done.
#pragma once

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

}  // namespace urnic
