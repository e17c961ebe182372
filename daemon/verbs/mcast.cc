// Multicast groups that a client's QPs are members of.
#include <algorithm>
#include <cerrno>

#include "daemon/verbs/client_state.h"
#include "daemon/verbs/mcast.h"
#include "daemon/verbs/operations.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

wire::Gid gid_of(const abi::McastRequest& request) {
    wire::Gid gid{};
    std::copy(std::begin(request.gid), std::end(request.gid), gid.begin());
    return gid;
}

int attach_mcast(ClientState& client, const abi::McastRequest& request, Reply& /*reply*/) {
    QpObject* qp = client.qps.find(request.qp);
    const wire::Gid gid = gid_of(request);
    if (qp == nullptr) {
        return ENOENT;
    }
    // Only UD QPs can be members (IBA 10.5.2.1).
    if (qp->type != QpType::kUd || !wire::is_multicast(gid)) {
        return EINVAL;
    }
    const bool is_infiniband = qp->pd->context->device->device->is_infiniband();
    if (is_infiniband && !wire::is_multicast_lid(request.lid)) {
        return EINVAL;
    }
    if (qp->memberships.count(gid) != 0) {
        return 0;  // a member gets one copy, however often it was attached
    }
    if (client.num_memberships >= client.control.limits.max_mcast_attachments ||
        !client.user.has_room(Resource::kMcastAttachments)) {
        return ENOMEM;
    }
    RnicState& device = *qp->pd->context->device;
    const int error = device.groups.attach(client.control, *device.device,
                                           {qp->slot, qp->worker, qp->memberships, client.user}, gid,
                                           is_infiniband ? request.lid : std::uint16_t{0});
    client.num_memberships += error == 0 ? 1 : 0;
    return error;
}

int detach_mcast(ClientState& client, const abi::McastRequest& request, Reply& /*reply*/) {
    QpObject* qp = client.qps.find(request.qp);
    if (qp == nullptr) {
        return ENOENT;
    }
    const auto membership = qp->memberships.find(gid_of(request));
    if (membership == qp->memberships.end()) {
        return EINVAL;
    }
    RnicState& device = *qp->pd->context->device;
    client.control.workers[qp->worker]->call([&] { MulticastGroups::unlink(membership->second.member); });
    device.groups.forget({qp->slot, qp->worker, qp->memberships, client.user}, membership);
    --client.num_memberships;
    device.groups.publish(client.control, *device.device);
    return 0;
}

constexpr Operation kMcastOperations[] = {
    operation<attach_mcast>(abi::Op::kAttachMcast),
    operation<detach_mcast>(abi::Op::kDetachMcast),
};

}  // namespace

/// Control thread: the QP is on no worker any more, its members are unlinked.
void forget_memberships(ClientState& client, QpObject& qp) {
    RnicState& device = *qp.pd->context->device;
    while (!qp.memberships.empty()) {
        device.groups.forget({qp.slot, qp.worker, qp.memberships, client.user}, qp.memberships.begin());
        --client.num_memberships;
    }
}

Operations mcast_operations() { return kMcastOperations; }

}  // namespace urnic::daemon
