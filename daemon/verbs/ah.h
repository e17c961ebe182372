// Address handles of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends some address handles of a context, of all for nullptr. Returns whether there were any.
[[nodiscard]] bool remove_ahs(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
