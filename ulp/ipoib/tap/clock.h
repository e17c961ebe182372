/// The time that a link's engines are told.
#pragma once

#include <chrono>
#include <cstdint>

namespace urnic::ipoib {

/// Milliseconds of a clock that never goes back.
[[nodiscard]] inline std::uint64_t now_ms() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
}

}  // namespace urnic::ipoib
