// Device memory of a client.
#pragma once

#include <memory>

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Adds a handle to device memory, new or another client's. 0 or errno.
[[nodiscard]] int add_dm(ClientState& client, ContextObject& context, std::shared_ptr<DeviceMemory> memory,
                         Reply& reply);
/// Ends some device memory of a context, of all for nullptr; its regions end. Returns whether there was
/// any.
[[nodiscard]] bool remove_dms(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
