// The control request of `urnic cc`.
#pragma once

#include <memory>
#include <vector>

#include "daemon/control/long_answer.h"
#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Whether the request asks for the rates of QPs.
[[nodiscard]] bool is_about_rates(const Request& request);
/// Answers that one. 0 or errno.
[[nodiscard]] int begin_rates_answer(const ControlState& control, std::unique_ptr<LongAnswer>& answer);

/// Answers any other CongestionRequest. 0 or errno, as abi::CongestionRequest says.
[[nodiscard]] int answer_congestion_request(ControlState& control,
                                            const std::vector<const ClientState*>& clients, User& user,
                                            const Request& request, Reply& reply);

}  // namespace urnic::daemon
