// What the daemon's page of metrics says of emulated networks.
#pragma once

#include "daemon/control/exposition.h"
#include "daemon/control/qp_snapshot.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Series of each port of each switch, by `fabric` and `port`: the RNIC that hangs on it, or "s1>s2".
void add_networks(Exposition& page, const ControlState& control);
/// A series for each of these QPs (as of query_qps()) whose packets go through an emulated network: the ports
/// of switches that they pass, in order.
void add_paths(Exposition& page, const ControlState& control, const QpSnapshots& qps);

}  // namespace urnic::daemon
