// MADs that workers received for QP1, on the control thread.
#pragma once

#include <functional>

#include "daemon/state/control_state.h"
#include "rnic/device/gsi.h"

namespace urnic::daemon {

/// From now on `handle` gets the MADs of every device, on the control thread; before the workers start.
/// Throws std::system_error.
void listen_for_mads(ControlState& control,
                     const std::function<void(RnicState&, const ReceivedMad&)>& handle);

}  // namespace urnic::daemon
