// CLOCK_MONOTONIC for the control thread, in the units of the protocol.
#pragma once

#include <time.h>

#include "base/time.h"

namespace urnic {

inline constexpr TimeNs kSecondNs = 1'000'000'000;

[[nodiscard]] inline TimeNs clock_now() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<TimeNs>(now.tv_sec) * kSecondNs + static_cast<TimeNs>(now.tv_nsec);
}

}  // namespace urnic
