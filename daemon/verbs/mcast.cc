// Multicast groups that a client's QPs are members of.
#include <algorithm>
#include <cerrno>

#include "daemon/verbs/client.h"
#include "rnic/wire/multicast.h"

namespace urnic::dataplane {

namespace {

wire::Gid gid_of(const abi::McastRequest& request) {
    wire::Gid gid{};
    std::copy(std::begin(request.gid), std::end(request.gid), gid.begin());
    return gid;
}

}  // namespace

int Client::attach_mcast(const abi::McastRequest& request, Request& /*message*/, Reply& /*reply*/) {
    QpObject* qp = qps_.find(request.qp);
    const wire::Gid gid = gid_of(request);
    if (qp == nullptr) {
        return ENOENT;
    }
    // Only UD QPs can be members (IBA 10.5.2.1).
    if (qp->type != QpType::kUd || !wire::is_multicast(gid)) {
        return EINVAL;
    }
    if (qp->memberships.count(gid) != 0) {
        return 0;  // a member gets one copy, however often it was attached
    }
    if (memberships_ >= control_.limits.max_mcast_attachments) {
        return ENOMEM;
    }
    RnicState& device = *qp->pd->context->device;
    const int error =
        device.groups.attach(control_, *device.device, qp->slot, qp->worker, qp->memberships, gid);
    memberships_ += error == 0 ? 1 : 0;
    return error;
}

int Client::detach_mcast(const abi::McastRequest& request, Request& /*message*/, Reply& /*reply*/) {
    QpObject* qp = qps_.find(request.qp);
    if (qp == nullptr) {
        return ENOENT;
    }
    const auto membership = qp->memberships.find(gid_of(request));
    if (membership == qp->memberships.end()) {
        return EINVAL;
    }
    RnicState& device = *qp->pd->context->device;
    control_.workers[qp->worker]->call([&] { MulticastGroups::unlink(membership->second.member); });
    device.groups.forget(qp->worker, qp->memberships, membership);
    --memberships_;
    device.groups.publish(control_, *device.device);
    return 0;
}

/// Control thread: the QP is on no worker any more, its members are unlinked.
void Client::forget_memberships(QpObject& qp) {
    RnicState& device = *qp.pd->context->device;
    while (!qp.memberships.empty()) {
        device.groups.forget(qp.worker, qp.memberships, qp.memberships.begin());
        --memberships_;
    }
}

}  // namespace urnic::dataplane
