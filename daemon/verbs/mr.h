// Memory regions of a client.
#pragma once

#include <memory>

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// 0, or ENOMEM: the client or the device has as many regions as it may.
[[nodiscard]] int check_mr_room(const ClientState& client, const PdObject& pd);
/// Takes the region in, gives it a key, counts it and answers. ENOMEM: there is no key; then its window is
/// not held any more either.
[[nodiscard]] int add_mr(ClientState& client, std::unique_ptr<MrObject> made, Reply& reply);
/// Ends some regions of a context, of all for nullptr; their windows have ended. Returns whether there were
/// any.
[[nodiscard]] bool remove_mrs(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
