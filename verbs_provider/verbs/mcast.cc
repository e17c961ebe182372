// Membership in multicast groups. The LID means nothing on Ethernet, whatever it is.
#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

int change_membership(abi::Op op, struct ibv_qp* qp, const union ibv_gid* gid) {
    abi::McastRequest request{};
    request.qp = qp->handle;
    std::memcpy(request.gid, gid->raw, sizeof request.gid);
    abi::EmptyReply reply{};
    return qp_of(qp)->session->call(op, request, reply);
}

}  // namespace

int attach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t /*lid*/) {
    return change_membership(abi::Op::kAttachMcast, qp, gid);
}

int detach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t /*lid*/) {
    Session* session = qp_of(qp)->session;
    const int error = change_membership(abi::Op::kDetachMcast, qp, gid);
    // A daemon that is gone has no members.
    return session->is_refusal(error) ? error : 0;
}

}  // namespace urnic::provider
