// What the daemon is doing, as JSON for `urnic status`.
#pragma once

#include <string>
#include <vector>

#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// {"daemon": {...}, "devices": [...], "workers": [...], "faults": [...], "users": [...], "clients": [...]},
/// for that user: `clients` are those that he may see. Who is not privileged gets counters of devices in sum,
/// and nothing that tells of others' objects. Asks each worker once for the state of the QPs.
[[nodiscard]] std::string status_json(const ControlState& control,
                                      const std::vector<const ClientState*>& clients, const User& user);

}  // namespace urnic::daemon
