// Memory windows of a client. The control thread makes and ends them; binding is the workers' (rnic/mem).
#include <cerrno>

#include "daemon/verbs/client.h"
#include "os/secure_random.h"

namespace urnic::dataplane {

int Client::alloc_mw(const abi::AllocMwRequest& request, Request& /*message*/, Reply& reply) {
    PdObject* pd = pds_.find(request.pd);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (request.type != static_cast<std::uint32_t>(WindowType::kType1) &&
        request.type != static_cast<std::uint32_t>(WindowType::kType2)) {
        return EINVAL;
    }
    RnicState& device = *pd->context->device;
    if (mws_.size() >= control_.limits.max_mws || device.num_mws >= device.device->caps.max_mw) {
        return ENOMEM;
    }
    auto made = std::make_unique<MwObject>(*pd, static_cast<WindowType>(request.type));
    MwObject& mw = *made;
    abi::AllocMwReply body{};
    body.handle = mws_.add(std::move(made));
    mw.key = device.device->keys.add_window(mw.window, secure_random());
    if (mw.key == 0) {
        mws_.remove(body.handle);
        return ENOMEM;
    }
    ++pd->users;
    ++device.num_mws;
    body.rkey = mw.key;
    reply.set(body);
    return 0;
}

int Client::dealloc_mw(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    MwObject* mw = mws_.find(request.handle);
    if (mw == nullptr) {
        return ENOENT;
    }
    mw->pd->context->device->device->keys.remove_window(mw->window);
    control_.barrier();
    forget_mw(*mw);
    mws_.remove(request.handle);
    return 0;
}

/// The window is removed and every worker has passed a loop boundary since.
void Client::forget_mw(MwObject& mw) {
    RnicState& device = *mw.pd->context->device;
    device.device->keys.unbind(mw.window);
    device.device->keys.release(mw.key);
    --device.num_mws;
    --mw.pd->users;
}

void Client::remove_mws(const ContextObject* context) {
    const auto ours = [&](const MwObject& mw) { return context == nullptr || mw.pd->context == context; };
    bool any = false;
    for (const auto& [handle, mw] : mws_) {
        if (ours(*mw)) {
            mw->pd->context->device->device->keys.remove_window(mw->window);
            any = true;
        }
    }
    if (!any) {
        return;
    }
    control_.barrier();  // one for all of them
    for (auto entry = mws_.begin(); entry != mws_.end();) {
        if (ours(*entry->second)) {
            forget_mw(*entry->second);
            entry = mws_.remove(entry);
        } else {
            ++entry;
        }
    }
}

}  // namespace urnic::dataplane
