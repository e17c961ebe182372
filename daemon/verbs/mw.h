// Memory windows of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Ends some windows of a context, of all for nullptr. Returns whether there were any.
[[nodiscard]] bool remove_mws(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
