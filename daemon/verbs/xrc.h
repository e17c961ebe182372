// XRC domains and target QPs of a client.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Makes a target QP and a handle to it. 0 or errno.
[[nodiscard]] int create_xrc_target(ClientState& client, const abi::CreateQpRequest& request, Reply& reply);
/// Gives the handle's QP up; the last handle takes the QP with it.
void detach_target(ClientState& client, XrcTargetObject& handle);
/// Ends some target QPs' handles of a context, of all for nullptr. Returns whether there were any.
[[nodiscard]] bool remove_xrc_targets(ClientState& client, const ContextObject* context);
/// Ends some domains' handles of a context, of all for nullptr; their SRQs and target QPs have ended. Returns
/// whether there were any.
[[nodiscard]] bool remove_xrcds(ClientState& client, const ContextObject* context);

}  // namespace urnic::daemon
