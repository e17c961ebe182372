// From an application's address vector to what packets need of it.
#pragma once

#include "dataplane/device.h"
#include "rnic/abi/control.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

/// Fills all of `spec` but the UDP source port, asking the device's neighbours: the control thread's work,
/// never a worker's. 0 or errno; EINVAL: not a RoCE v2 address vector, or GIDs that do not go together;
/// ENETUNREACH: nobody has the destination GID.
[[nodiscard]] int resolve_address(const Device& device, const abi::AddressVector& av, wire::PathSpec& spec);

}  // namespace urnic::dataplane
