// Which priorities of a port the other end of its link has paused (IEEE 802.1Qbb clause 36), and until when.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "rnic/device/pfc.h"
#include "rnic/wire/dissect/eth/headers.h"

namespace urnic {

/// One worker, the owner, takes the frames; all workers look.
class PfcReceiver {
  public:
    /// Both live longer.
    PfcReceiver(const PfcSettings& settings, PfcCounters& counters)
        : settings_(settings), counters_(counters) {}

    // --- The owner's:
    /// Handles a valid pause frame. Returns whether some pause ends sooner than it would have: others may
    /// sleep until then.
    bool receive(TimeNs now, const wire::Pfc& frame);
    /// The link went: nothing is paused. Returns the same.
    bool clear(TimeNs now);
    /// Writes off what has run out.
    void expire(TimeNs now);

    // --- Everybody's:
    /// Returns whether no priority is paused, so that paused() need not be called. One load.
    [[nodiscard]] bool none() const { return active_.load(std::memory_order_acquire) == 0; }
    /// Bit n: priority n is paused.
    [[nodiscard]] std::uint8_t paused(TimeNs now) const;
    /// When the first of these pauses ends, if no frame comes; kNever: nothing is paused.
    [[nodiscard]] TimeNs first_end(TimeNs now) const;
    /// How long the priority has been paused since the start, all in all.
    [[nodiscard]] TimeNs paused_ns(TimeNs now, std::uint32_t priority) const;

  private:
    /// Times are the owner's to write; `until` is 0 while nothing is paused.
    struct Priority {
        std::atomic<TimeNs> since{0};
        std::atomic<TimeNs> until{0};
        std::atomic<TimeNs> before_ns{0};  // of pauses that are over
        TimeNs asked_until = 0;            // what `until` would be without the watchdog
        bool stormy = false;               // the watchdog ended a pause
        TimeNs storm_until = 0;            // at least
        TimeNs debt_ns = 0;                // paused time that the watchdog counts, as of debt_at
        TimeNs debt_at = 0;                // the end of the last pause
    };
    bool pause(TimeNs now, std::uint32_t index, std::uint16_t quanta);
    bool resume(TimeNs now, std::uint32_t index);
    void end(Priority& priority, std::uint32_t index, TimeNs at);
    [[nodiscard]] static TimeNs debt(const Priority& priority, TimeNs now);
    [[nodiscard]] bool is_active(std::uint32_t index) const {
        return (active_.load(std::memory_order_relaxed) >> index & 1U) != 0;
    }
    void set_active(std::uint32_t index, bool active);

    const PfcSettings& settings_;
    PfcCounters& counters_;
    std::atomic<std::uint8_t> active_{0};  // bit n: `until` of priority n is to be looked at
    std::array<Priority, wire::kPriorities> priorities_;
};

}  // namespace urnic
