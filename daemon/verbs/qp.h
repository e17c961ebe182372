// Queue pairs of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Sends what the QPs of a context have posted, of all for nullptr, before they end: a NIC would have sent it
/// when its program is gone.
void send_posted(ClientState& client, const ContextObject* context);
/// Ends the QPs of a context, of all for nullptr.
void remove_qps(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
