// The control request of `urnic port`: takes a device's port down and up, as `ip link set` does.
#pragma once

#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Answers a PortRequest. 0 or errno, as abi::PortRequest says.
[[nodiscard]] int answer_port_request(ControlState& control, User& user, const Request& request,
                                      Reply& reply);

}  // namespace urnic::daemon
