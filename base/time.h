// Time as the protocol sees it: nanoseconds of a monotonic clock that the caller owns.
#pragma once

#include <cstdint>

namespace urnic {

/// Nanoseconds since an arbitrary, fixed origin. Code in rnic/ never reads a clock: time is an argument.
using TimeNs = std::uint64_t;

inline constexpr TimeNs kNever = ~TimeNs{0};

}  // namespace urnic
