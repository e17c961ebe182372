// Requests about live captures (abi::CaptureRequest).
#pragma once

#include <cstdint>

#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Returns 0 or an errno value. `id`: of the connection's capture, 0: it has none; whoever has one calls
/// ActiveCaptures::remove() in the end.
[[nodiscard]] int answer_capture_request(ControlState& control, User& user, const Request& request,
                                         Reply& reply, std::uint32_t& id);

}  // namespace urnic::daemon
