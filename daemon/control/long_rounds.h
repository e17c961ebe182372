// Tells the log of rounds of workers that took long.
#pragma once

#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Logs those that have ended since the last call, with the process in whose turn they did: a few lines a
/// minute for each user.
void log_long_rounds(ControlState& control);

}  // namespace urnic::daemon
