// Changes of a QP that wait for the command which they prepare.
//
// Where a connection is accepted, librdmacm asks for the attributes of three states, changes the QP with
// ibv_modify_qp() after each answer, and then writes ACCEPT: all inside one call of the application, which
// reports whichever fails. So the three changes wait in the thread that made them, and travel with ACCEPT.
// Any other request of that thread sends them first, and answers the error of one that fails.
#pragma once

#include <cstdint>

#include "abi/control.h"
#include "abi/control_cm.h"

namespace urnic::provider {

class Session;

/// Of one thread. Trivial, so that it can be thread-local without a run-time library.
struct DeferredModifies {
    /// ibv_qp_state that librdmacm was given the attributes of, from what is known here; 0: none.
    std::uint32_t announced_state;
    /// The thread is inside librdmacm's call of ibv_modify_qp().
    bool is_from_librdmacm;
    std::uint32_t count;
    Session* session;
    abi::CmAcceptRequest::Modify modifies[abi::CmAcceptRequest::kMaxModifies];

    /// Returns whether the change waits, which then counts as done. `before`: the QP's state.
    [[nodiscard]] bool defer(Session& of, QpState before, const abi::ModifyQpRequest& request);
    /// Sends what waits. 0 or the error of the first that failed; those after it are not sent.
    [[nodiscard]] int flush();
    /// Puts what waits into the request, if it is for that session.
    void move_to(const Session& to, abi::CmAcceptRequest& request);
};

[[nodiscard]] DeferredModifies& deferred_modifies();

}  // namespace urnic::provider
