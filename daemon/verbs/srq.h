// Shared receive queues of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends some SRQs of a context, of all for nullptr; no QP uses them any more. Returns whether there were any.
[[nodiscard]] bool remove_srqs(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
