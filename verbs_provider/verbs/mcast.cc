// Membership in multicast groups. The LID means nothing on Ethernet, whatever it is; to leave a group its GID
// is enough.
#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

int change_membership(abi::Op op, struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) {
    abi::McastRequest request{};
    request.qp = qp->handle;
    request.lid = lid;
    std::memcpy(request.gid, gid->raw, sizeof request.gid);
    abi::EmptyReply reply{};
    return qp_of(qp)->session->call(op, request, reply);
}

}  // namespace

int attach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) {
    return change_membership(abi::Op::kAttachMcast, qp, gid, lid);
}

int detach_mcast(struct ibv_qp* qp, const union ibv_gid* gid, std::uint16_t lid) {
    Session* session = qp_of(qp)->session;
    const int error = change_membership(abi::Op::kDetachMcast, qp, gid, lid);
    // A daemon that is dead has no members.
    return session->is_refusal(error) ? error : 0;
}

}  // namespace urnic::provider
