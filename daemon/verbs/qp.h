// Queue pairs of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Sends what some QPs of a context have posted, of all for nullptr, before they end: a NIC would have sent
/// it when its program has ended. Returns whether there were any of which this was not done yet.
[[nodiscard]] bool send_posted(ClientState& client, const ContextObject* context);
/// Ends some QPs of a context, of all for nullptr. Returns whether there were any.
[[nodiscard]] bool remove_qps(ClientState& client, const ContextObject* context);

/// Carries out one change of a QP. Errors as ibv_modify_qp().
[[nodiscard]] int change_qp(ClientState& client, const abi::ModifyQpRequest& request);

}  // namespace urnic::daemon
