// The control request of `urnic status`, which is answered in steps.
#pragma once

#include <cstddef>
#include <memory>

#include "daemon/control/object_walk.h"
#include "daemon/control/status_cache.h"
#include "daemon/control/status_text.h"
#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

/// What a connection waits for.
struct StatusAnswer {
    std::shared_ptr<StatusText> text;
    UniqueFd file;
    std::size_t num_written = 0;  // pieces of the text that are in the file
};

/// A step of the answer to that user, who asks at `now` when there is no `answer` yet; it is kept for the
/// next step. 0, kUnfinished or errno.
[[nodiscard]] int answer_status_request(const ControlState& control, StatusCache<StatusText>& cache,
                                        const User& user, TimeNs now, const ClientFrom& client_from,
                                        const Request& request, Reply& reply,
                                        std::unique_ptr<StatusAnswer>& answer);

}  // namespace urnic::daemon
