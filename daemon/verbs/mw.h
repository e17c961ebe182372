// Memory windows of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends the windows of a context, of all for nullptr.
void remove_mws(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
