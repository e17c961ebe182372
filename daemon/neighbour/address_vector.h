// From an application's address vector to what packets need of it.
#pragma once

#include "abi/control.h"
#include "dataplane/device/device.h"
#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

/// Fills all of `spec` but the UDP source port, asking the device's neighbours: the control thread's work,
/// never a worker's. 0 or errno; EINVAL: not an address vector of the port's link layer, or GIDs that do not
/// go together; ENETUNREACH: there is no route to the destination GID; ENOMEM: too many destinations. After 0
/// spec.neighbour is the caller's to release (NeighbourResolver).
[[nodiscard]] int resolve_address(const dataplane::Device& device, const abi::AddressVector& av,
                                  wire::PathSpec& spec);

}  // namespace urnic::daemon
