// The control request of `urnic status`.
#pragma once

#include <memory>

#include "daemon/control/long_answer.h"
#include "daemon/control/status_cache.h"
#include "daemon/control/status_text.h"
#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// For that user, who asks at `now`. `cache` and `user` live longer than the answer. 0 or errno.
[[nodiscard]] int begin_status_answer(const ControlState& control, StatusCache<StatusText>& cache,
                                      const User& user, TimeNs now, const Request& request,
                                      std::unique_ptr<LongAnswer>& answer);

}  // namespace urnic::daemon
