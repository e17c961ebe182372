// The control thread's clocks, in the units of the protocol.
#pragma once

#include <time.h>

#include "base/time.h"

namespace urnic {

inline constexpr TimeNs kSecondNs = 1'000'000'000;

[[nodiscard]] inline TimeNs read_clock(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<TimeNs>(now.tv_sec) * kSecondNs + static_cast<TimeNs>(now.tv_nsec);
}

[[nodiscard]] inline TimeNs clock_now() { return read_clock(CLOCK_MONOTONIC); }
/// Processor time of the calling thread. A system call.
[[nodiscard]] inline TimeNs thread_cpu_now() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace urnic
