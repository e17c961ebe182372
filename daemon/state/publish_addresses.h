// Addresses that have changed while the daemon runs.
#pragma once

#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// After set_addresses(): workers, sysroot and applications hear of it (IBV_EVENT_GID_CHANGE).
void publish_addresses(ControlState& control, RnicState& device);

}  // namespace urnic::daemon
