// Requests of one client: Hello, which makes its state, and the operations on it.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/ipc/message.h"
#include "daemon/ipc/peer.h"
#include "daemon/state/control_state.h"
#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Answers Hello. EPROTO: another ABI version (the reply is whole then); else out of memory or descriptors.
[[nodiscard]] int hello(ControlState& control, const Peer& peer, std::uint32_t id, const Request& request,
                        Reply& reply, std::unique_ptr<ClientState>& client);

/// Executes a request other than Hello and Status. 0, kUnfinished or errno; EOPNOTSUPP: unknown operation,
/// EINVAL: a wrong length, a wrong number of descriptors, a handle that is not there, or what the operation
/// says.
[[nodiscard]] int handle_request(ClientState& client, Request& request, Reply& reply);

}  // namespace urnic::daemon
