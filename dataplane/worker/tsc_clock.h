// CLOCK_MONOTONIC without a call for each reading: the time stamp counter, tied to the clock once a second.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace urnic::dataplane {

/// One for each thread. Never goes back.
class TscClock {
  public:
    /// The EAL must have been started: it knows the counter's frequency.
    TscClock();
    [[nodiscard]] TimeNs now();

  private:
    void anchor();

    std::uint64_t ticks_per_second_;    // by the EAL, which rounds it
    std::uint64_t nominal_q32_;         // nanoseconds a tick by that, in 1/2^32
    std::uint64_t measured_q32_ = 0;    // the last measurement, whether it is taken or not
    std::uint64_t ns_per_tick_q32_;     // as measured between the last two readings of the system's clock
    std::uint64_t anchored_for_ticks_;  // how long the last reading serves; longer each time, up to a second
    std::uint64_t anchor_ticks_ = 0;
    TimeNs anchor_ns_ = 0;
    TimeNs last_ns_ = 0;
};

}  // namespace urnic::dataplane
