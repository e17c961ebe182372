#include "verbs_provider/core/deferred_modifies.h"

#include <algorithm>

#include "verbs_provider/core/session.h"

namespace urnic::provider {

namespace {

thread_local constinit DeferredModifies own_modifies{};

struct Transition {
    QpState from, to;
};
/// What librdmacm does on the way to ACCEPT. From RESET to INIT the application has its QP back at once.
constexpr Transition kDeferred[] = {
    {QpState::kInit, QpState::kInit}, {QpState::kInit, QpState::kRtr}, {QpState::kRtr, QpState::kRts}};

}  // namespace

DeferredModifies& deferred_modifies() { return own_modifies; }

bool DeferredModifies::defer(Session& of, QpState before, const abi::ModifyQpRequest& request) {
    const QpState to = request.attr.state;
    const bool is_announced = announced_state == static_cast<std::uint32_t>(to);
    announced_state = 0;
    const bool is_deferrable =
        is_from_librdmacm && is_announced && (request.attr.mask & kQpAttrState) != 0 &&
        of.state() == SessionState::kLive &&
        std::any_of(std::begin(kDeferred), std::end(kDeferred),
                    [&](const Transition& one) { return one.from == before && one.to == to; });
    const bool has_room =
        count == 0 || (count < std::size(modifies) && session == &of && modifies[0].qp == request.qp);
    if (!is_deferrable || !has_room) {
        return false;
    }
    session = &of;
    modifies[count++] = {request.qp, 0, request.attr};
    return true;
}

int DeferredModifies::flush() {
    const std::uint32_t waiting = count;
    count = 0;  // what is sent below finds nothing to flush
    for (std::uint32_t i = 0; i < waiting; ++i) {
        abi::ModifyQpRequest request{};
        request.qp = modifies[i].qp;
        request.attr = modifies[i].attr;
        abi::EmptyReply reply{};
        if (const int error = session->call(abi::Op::kModifyQp, request, reply); error != 0) {
            return error;
        }
    }
    return 0;
}

void DeferredModifies::move_to(const Session& to, abi::CmAcceptRequest& request) {
    if (session == &to) {
        request.num_modifies = count;
        std::copy_n(modifies, count, request.modifies);
        count = 0;
    }
}

}  // namespace urnic::provider
