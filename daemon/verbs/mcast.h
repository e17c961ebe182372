// Multicast groups that a client's QPs are members of.
#pragma once

#include "daemon/verbs/client_state.h"

namespace urnic::daemon {

/// Forgets the memberships of a QP that is on no worker any more; its members are unlinked.
void forget_memberships(ClientState& client, QpObject& qp);

}  // namespace urnic::daemon
