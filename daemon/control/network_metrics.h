// What the daemon's page of metrics says of emulated networks.
#pragma once

#include "daemon/control/exposition.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Series of each port of each switch, by `fabric` and `port`: the RNIC that hangs on it, or "s1>s2".
void add_networks(Exposition& page, const ControlState& control);

}  // namespace urnic::daemon
