// Address handles of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends the address handles of a context, of all for nullptr.
void remove_ahs(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
