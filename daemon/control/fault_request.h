// The control request of `urnic fault`.
#pragma once

#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Answers a FaultRequest. 0 or errno, as abi::FaultRequest says.
[[nodiscard]] int answer_fault_request(ControlState& control, User& user, const Request& request,
                                       Reply& reply);

}  // namespace urnic::daemon
