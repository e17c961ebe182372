// librdmacm's commands of a client. They need no Hello to have opened a device; what they do is in cm/.
#include <rdma/rdma_user_cm.h>

#include <cerrno>

#include "daemon/cm/client.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/operations.h"
#include "daemon/verbs/qp.h"

namespace urnic::daemon {

namespace {

int open_cm_channel(ClientState& client, const abi::OpenCmChannelRequest& /*request*/, Reply& reply) {
    if (client.control.cm == nullptr) {
        return EOPNOTSUPP;
    }
    if (!client.cm) {
        client.cm = std::make_unique<CmClient>(*client.control.cm, client, client.user);
    }
    abi::HandleReply body{};
    UniqueFd theirs;
    if (const int error = client.cm->open_channel(body.handle, theirs); error != 0) {
        return error;
    }
    reply.set(body);
    reply.give(std::move(theirs));
    return 0;
}

int close_cm_channel(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    return client.cm ? client.cm->close_channel(request.handle) : ENOENT;
}

int cm_command(ClientState& client, const abi::CmCommandRequest& request, Reply& reply) {
    if (!client.cm) {
        return EINVAL;
    }
    abi::CmCommandReply body{};
    const int error = client.cm->command(request, body);
    reply.set(body);
    reply.whole_on_error = true;
    return error;
}

int cm_accept(ClientState& client, const abi::CmAcceptRequest& request, Reply& reply) {
    if (request.num_modifies > abi::CmAcceptRequest::kMaxModifies ||
        request.command.command != RDMA_USER_CM_CMD_ACCEPT) {
        return EINVAL;
    }
    for (std::uint32_t i = 0; i < request.num_modifies; ++i) {
        abi::ModifyQpRequest modify{};
        modify.qp = request.modifies[i].qp;
        modify.attr = request.modifies[i].attr;
        if (const int error = change_qp(client, modify); error != 0) {
            return error;
        }
    }
    return cm_command(client, request.command, reply);
}

constexpr Operation kCmOperations[] = {
    operation<open_cm_channel>(abi::Op::kOpenCmChannel),
    operation<close_cm_channel>(abi::Op::kCloseCmChannel),
    operation<cm_command>(abi::Op::kCmCommand),
    operation<cm_accept>(abi::Op::kCmAccept),
};

}  // namespace

Operations cm_operations() { return kCmOperations; }

}  // namespace urnic::daemon
