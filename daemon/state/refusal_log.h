// How much the log hears of what one user is refused: who is refused without end fills no disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rate_limit.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

class RefusalLog {
  public:
    static constexpr std::size_t kMostLines = 8;
    /// For so many lines.
    static constexpr TimeNs kIntervalNs = 60 * kSecondNs;

    /// One more refusal at `now`. If it is to be logged: how many have not been since the last line.
    [[nodiscard]] std::optional<std::uint64_t> add(TimeNs now) {
        ++refusals_;
        if (!limit_.take(now)) {
            ++suppressed_;
            return std::nullopt;
        }
        const std::uint64_t since = suppressed_ - told_of_;
        told_of_ = suppressed_;
        return since;
    }
    [[nodiscard]] std::uint64_t refusals() const { return refusals_; }
    /// Those of them that have no line.
    [[nodiscard]] std::uint64_t suppressed() const { return suppressed_; }

  private:
    RateLimit<kMostLines, kIntervalNs> limit_;
    std::uint64_t refusals_ = 0;
    std::uint64_t suppressed_ = 0;
    std::uint64_t told_of_ = 0;  // of those that were suppressed
};

}  // namespace urnic::daemon
