// How much the log hears of what one user does: who does it without end fills no disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/rate_limit.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

class LimitedLog {
  public:
    static constexpr std::size_t kMostLines = 8;
    /// For so many lines.
    static constexpr TimeNs kIntervalNs = 60 * kSecondNs;

    /// It has happened once more, at `now`. If that is to be logged: how often it has not been since the last
    /// line.
    [[nodiscard]] std::optional<std::uint64_t> add(TimeNs now) {
        ++total_;
        if (!limit_.take(now)) {
            ++suppressed_;
            return std::nullopt;
        }
        const std::uint64_t since = suppressed_ - told_of_;
        told_of_ = suppressed_;
        return since;
    }
    /// It has happened once more, and somebody else's line says so.
    void note() { ++total_; }
    /// How often it has happened.
    [[nodiscard]] std::uint64_t total() const { return total_; }
    /// And how often without a line.
    [[nodiscard]] std::uint64_t suppressed() const { return suppressed_; }

  private:
    RateLimit<kMostLines, kIntervalNs> limit_;
    std::uint64_t total_ = 0;
    std::uint64_t suppressed_ = 0;
    std::uint64_t told_of_ = 0;  // of those that were suppressed
};

}  // namespace urnic::daemon
