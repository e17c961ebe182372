// Tells the service manager that the daemon is alive while all its workers are: one that is stuck in the
// kernel, or in a loop, is a reason to start the daemon anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"

namespace urnic::daemon {

/// The control thread's own, so that one that hangs is noticed as well.
class Watchdog {
  public:
    /// What is asked of workers and told about them, by their numbers.
    struct Workers {
        std::size_t number = 0;
        /// Differs from before once the worker has begun another round.
        std::function<std::uint64_t(std::size_t)> last_round;
        /// A worker that sleeps makes a round soon.
        std::function<void(std::size_t)> wake;
    };

    Watchdog(Workers workers, std::function<void()> tell_alive);

    /// Looks whether each worker has begun a round since all of them were seen to have: then it tells that
    /// the daemon is alive. A look long before one has had the time for a round does no harm.
    void look(TimeNs now);

  private:
    void report(std::size_t worker, TimeNs now);

    Workers workers_;
    std::function<void()> tell_alive_;
    std::vector<std::uint64_t> seen_;
    TimeNs told_at_ = kNever;
    bool is_reported_ = false;
};

/// How often it is to look, where the service manager waits for so long.
[[nodiscard]] constexpr TimeNs watchdog_look_ns(TimeNs watchdog_ns) { return watchdog_ns / 4; }

}  // namespace urnic::daemon
