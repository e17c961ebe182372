// What an RNIC says that it can do.
#pragma once

#include "abi/control.h"
#include "dataplane/device/device.h"

namespace urnic::daemon {

/// What can really be made: every number is within the daemon's own tables (KeyTable::kMaxKeys,
/// AddressHandles::kSlots, abi::kDoorbellSlots, abi::kMaxCqEntries).
[[nodiscard]] abi::DeviceCaps caps_of(const dataplane::Device& device);

}  // namespace urnic::daemon
