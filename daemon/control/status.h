// What the daemon is doing, as JSON for `urnic status`.
#pragma once

#include <string>
#include <vector>

#include "daemon/state/control_state.h"
#include "daemon/verbs/client.h"

namespace urnic::dataplane {

/// {"daemon": {...}, "devices": [...], "workers": [...], "faults": [...], "clients": [...]}. Asks each worker
/// once for the state of its QPs.
[[nodiscard]] std::string status_json(const ControlState& control, const std::vector<const Client*>& clients);

/// "0000:0000:0000:0000:0000:ffff:c612:0001", as sysfs shows GIDs.
[[nodiscard]] std::string to_string(const wire::Gid& gid);
/// "0200:00ff:fe00:0001", as sysfs shows GUIDs; `guid` in network order.
[[nodiscard]] std::string guid_to_string(std::uint64_t guid);

}  // namespace urnic::dataplane
