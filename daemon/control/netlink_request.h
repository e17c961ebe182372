// RDMA netlink: what `rdma` of iproute2 asks about RNICs, ports, resources and counters.
#pragma once

#include <memory>

#include "daemon/control/long_answer.h"
#include "daemon/ipc/message.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Answers an abi::NetlinkRequest as the kernel's RDMA netlink would; commands that it does not know, and all
/// that change something, get EOPNOTSUPP there. 0 or errno.
[[nodiscard]] int begin_netlink_answer(const ControlState& control, const Request& request,
                                       std::unique_ptr<LongAnswer>& answer);

}  // namespace urnic::daemon
