// RNICs of one daemon that programs cannot tell by their GUIDs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dataplane/device/device.h"

namespace urnic::daemon {

/// What to say of each RNIC that has the node GUID of an earlier one. A GUID is made of a MAC, and interfaces
/// may have the same one, as VLANs of a NIC do. On one fabric there are none: its configuration is refused.
[[nodiscard]] std::vector<std::string> equal_guids(std::span<dataplane::Device* const> devices);

}  // namespace urnic::daemon
