// What the daemon's page of metrics says, in Prometheus' text format.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// `clients`: all of them. At most `max_qps` QPs have series of their own; the page says how many have none.
[[nodiscard]] std::string metrics_text(const ControlState& control,
                                       const std::vector<const ClientState*>& clients, std::size_t max_qps);

}  // namespace urnic::daemon
