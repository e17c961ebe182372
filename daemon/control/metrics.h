// What the daemon's page of metrics says.
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/http/metrics_text.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// `clients`: all of them. At most `max_qps` QPs have series of their own; the page says how many have none.
[[nodiscard]] MetricsText metrics_text(const ControlState& control,
                                       const std::vector<const ClientState*>& clients, std::size_t max_qps);

}  // namespace urnic::daemon
