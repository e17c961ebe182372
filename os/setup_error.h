// What keeps the daemon from starting: a setting, the machine, a privilege.
#pragma once

#include <stdexcept>

namespace urnic {

/// Something could not be set up. what() says what was wrong, where, and what to do.
struct SetupError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace urnic
