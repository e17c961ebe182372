// Follows what happens to the ports: links, interfaces that go and come, NICs that are pulled out.
#pragma once

#include "daemon/state/control_state.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/port/kernel/kernel_port.h"

namespace urnic::daemon {

/// From now on what happens to the port is reported (report_port()), from the control thread. Workers run,
/// the control server does not yet; `port` outlives it. Reports what is the case now, too.
void monitor_link(ControlState& control, RnicState& device, dataplane::KernelPort& port);
void monitor_link(ControlState& control, RnicState& device, dataplane::DpdkPort& port);

}  // namespace urnic::daemon
