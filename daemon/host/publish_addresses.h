// Addresses that have changed while the daemon runs.
#pragma once

#include "daemon/host/host.h"

namespace urnic::dataplane {

/// After set_addresses(): workers, sysroot and applications hear of it (IBV_EVENT_GID_CHANGE).
void publish_addresses(Host& host, HostDevice& device);

}  // namespace urnic::dataplane
