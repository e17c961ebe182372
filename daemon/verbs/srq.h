// Shared receive queues of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends the SRQs of a context, of all for nullptr; no QP uses them any more.
void remove_srqs(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
