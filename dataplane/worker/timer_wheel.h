// A hierarchical timer wheel: one for each worker, with intrusive nodes, so that arming, moving and
// cancelling a timer cost a few pointer writes and no memory. Knows no clock: time is an argument.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace urnic::dataplane {

/// Lies inside what it times. Must not move or die while armed.
struct TimerNode {
    TimerNode* next = nullptr;
    TimerNode* prev = nullptr;
    TimeNs expires = kNever;  // kNever: not armed
    std::uint16_t slot = 0;   // level * kSlots + slot, while armed

    [[nodiscard]] bool armed() const { return next != nullptr; }
};

class TimerWheel {
  public:
    /// A timer fires at the first advance() that is at most this much after its time, and never before it.
    static constexpr TimeNs kTickNs = 1024;

    explicit TimerWheel(TimeNs now);
    TimerWheel(const TimerWheel&) = delete;
    TimerWheel& operator=(const TimerWheel&) = delete;

    /// Arms `node` for `expires`, which may lie in the past (then the next advance() fires it), or moves it
    /// there.
    void arm(TimerNode& node, TimeNs expires);
    /// Disarms; nothing happens if it is not armed.
    void cancel(TimerNode& node);

    /// Returns whether advance(now) would have something to do: the cost of a round without timers.
    [[nodiscard]] bool due(TimeNs now) const { return now >= next_event_; }

    /// Calls fire(node) for each timer whose time has come, disarmed before the call. `fire` may arm and
    /// cancel any timer, the same one included.
    template <typename Fire>
    void advance(TimeNs now, Fire&& fire) {
        for (TimerNode* node = pop_expired(now); node != nullptr; node = pop_expired(now)) {
            fire(*node);
        }
    }

    /// No timer needs attention before this time (a lower bound: the wheel may want to sort far timers into
    /// finer slots); kNever when none is armed.
    [[nodiscard]] TimeNs next_event() const { return next_event_; }

  private:
    static constexpr std::uint32_t kSlotBits = 6;
    static constexpr std::uint32_t kSlots = 1U << kSlotBits;
    static constexpr std::uint32_t kLevels = 9;  // 54 bits of ticks: every TimeNs has its place
    static constexpr std::uint32_t kTickShift = 10;
    static constexpr std::uint64_t kLastTick = (std::uint64_t{1} << (kLevels * kSlotBits)) - 1;
    static_assert(kTickNs == TimeNs{1} << kTickShift);
    static_assert(kLevels * kSlotBits + kTickShift == 64);

    void insert(TimerNode& node);
    void unlink(TimerNode& node);
    void cascade(std::uint32_t level, std::uint32_t slot);
    TimerNode* pop_expired(TimeNs now);

    std::uint64_t tick_;  // everything before it has fired
    TimeNs next_event_ = kNever;
    std::array<std::uint64_t, kLevels> occupied_{};  // bit s: slot s of the level is not empty
    std::array<std::array<TimerNode, kSlots>, kLevels> heads_;
};

}  // namespace urnic::dataplane
