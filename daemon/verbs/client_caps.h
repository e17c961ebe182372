// What a device says it can do, to one client.
#pragma once

#include <cstdint>

#include "abi/control.h"
#include "daemon/config/config.h"
#include "daemon/state/user.h"

namespace urnic::daemon {

/// The device's capabilities, but no more of anything than a client with these limits gets: nothing that is
/// reported is refused to it for its size or number.
[[nodiscard]] abi::DeviceCaps client_caps(abi::DeviceCaps caps, const ClientLimits& limits, const User& user,
                                          std::uint32_t num_workers);

}  // namespace urnic::daemon
