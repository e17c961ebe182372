// An error that ends `urnic` before it has run anything; the text says what, where and what to do.
#pragma once

#include <stdexcept>

namespace urnic::cli {

/// Exit status of `urnic` for its own failures, as with env(1) and timeout(1).
inline constexpr int kExitOwnFailure = 125;
inline constexpr int kExitCannotExecute = 126;
inline constexpr int kExitNotFound = 127;

class LaunchError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace urnic::cli
