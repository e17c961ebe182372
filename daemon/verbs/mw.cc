// Memory windows of a client. The control thread makes and ends them; binding is the workers' (rnic/mem).
#include <cerrno>

#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/mw.h"
#include "daemon/verbs/operations.h"
#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

/// The window is removed and every worker has passed a loop boundary since.
void forget_mw(MwObject& mw) {
    RnicState& device = *mw.pd->context->device;
    device.device->keys.unbind(mw.window);
    device.device->keys.release(mw.key);
    --device.num_mws;
    --mw.pd->users;
}

int alloc_mw(ClientState& client, const abi::AllocMwRequest& request, Reply& reply) {
    PdObject* pd = client.pds.find(request.pd);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (request.type != static_cast<std::uint32_t>(WindowType::kType1) &&
        request.type != static_cast<std::uint32_t>(WindowType::kType2)) {
        return EINVAL;
    }
    RnicState& device = *pd->context->device;
    if (client.mws.size() >= client.control.limits.max_mws || device.num_mws >= device.device->caps.max_mw ||
        !client.user.has_room(Resource::kMws)) {
        return ENOMEM;
    }
    auto made = std::make_unique<MwObject>(*pd, static_cast<WindowType>(request.type));
    MwObject& mw = *made;
    abi::AllocMwReply body{};
    body.handle = client.mws.add(std::move(made));
    mw.key = device.device->keys.add_window(mw.window, secure_random());
    if (mw.key == 0) {
        client.mws.remove(body.handle);
        return ENOMEM;
    }
    ++pd->users;
    ++device.num_mws;
    body.rkey = mw.key;
    reply.set(body);
    return 0;
}

int dealloc_mw(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    MwObject* mw = client.mws.find(request.handle);
    if (mw == nullptr) {
        return ENOENT;
    }
    mw->pd->context->device->device->keys.remove_window(mw->window);
    client.control.barrier();
    forget_mw(*mw);
    client.mws.remove(request.handle);
    return 0;
}

constexpr Operation kMwOperations[] = {
    operation<alloc_mw>(abi::Op::kAllocMw),
    operation<dealloc_mw>(abi::Op::kDeallocMw),
};

}  // namespace

bool remove_mws(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.mws, [&](const MwObject& mw) { return context == nullptr || mw.pd->context == context; });
    if (batch.empty()) {
        return false;
    }
    for (const auto at : batch) {
        at->second->pd->context->device->device->keys.remove_window(at->second->window);
    }
    client.control.barrier();  // one for all of them
    return remove_batch(client.mws, batch, forget_mw);
}

Operations mw_operations() { return kMwOperations; }

}  // namespace urnic::daemon
