// Addresses of AF_IB: a GID, a P_Key, and a service ID with a mask of the bits of it that are given.
#pragma once

#include <cstdint>

#include "daemon/cm/id.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// Returns whether an RNIC is of InfiniBand: nobody else has addresses of AF_IB.
[[nodiscard]] bool has_infiniband(const ControlState& control);

/// The port space of the service ID, for an id that was made for `space`: its own, or of RDMA_PS_IB any. As
/// Linux, service IDs of the RDMA IP CM service alone can be listened at. 0: none.
[[nodiscard]] std::uint16_t port_space_of(const Endpoint& local, std::uint16_t space);

/// Says the whole service ID of a user that has its port.
void say_service(PortUser& user);

/// The id is at that port of InfiniBand.
void use_gid(CmId& id, RnicState& device);

}  // namespace urnic::daemon
