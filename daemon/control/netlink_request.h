// RDMA netlink: what `rdma` of iproute2 asks about RNICs, ports, resources and counters.
#pragma once

#include <vector>

#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Answers an abi::NetlinkRequest as the kernel's RDMA netlink would; commands that it does not know, and all
/// that change something, get EOPNOTSUPP there. `clients`: those that the asker may see. 0 or errno.
[[nodiscard]] int answer_netlink_request(const ControlState& control,
                                         const std::vector<const ClientState*>& clients,
                                         const Request& request, Reply& reply);

}  // namespace urnic::daemon
