// Completion queues of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends some CQs of a context, of all for nullptr; no QP or SRQ uses them any more. Returns whether there
/// were any.
[[nodiscard]] bool remove_cqs(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
