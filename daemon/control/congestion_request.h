// The control request of `urnic cc`.
#pragma once

#include <vector>

#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Answers a CongestionRequest. 0 or errno, as abi::CongestionRequest says.
[[nodiscard]] int answer_congestion_request(ControlState& control,
                                            const std::vector<const ClientState*>& clients, User& user,
                                            const Request& request, Reply& reply);

}  // namespace urnic::daemon
