// What the daemon is doing, as JSON for `urnic status`.
#pragma once

#include <string>
#include <vector>

#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// {"daemon": {...}, "devices": [...], "workers": [...], "faults": [...], "clients": [...]}. Asks each worker
/// once for the state of its QPs.
[[nodiscard]] std::string status_json(const ControlState& control,
                                      const std::vector<const ClientState*>& clients);

}  // namespace urnic::daemon
