// Objects of other clients, shared by the command fd of a context (ibv_import_device). A protection domain is
// a number, so whoever imports it has one of his own with the same number; a region stays its owner's, and
// ends with him.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "daemon/ipc/fd_closer.h"
#include "daemon/verbs/client.h"
#include "daemon/verbs/client_caps.h"

namespace urnic::dataplane {

int Client::import_device(const abi::ImportDeviceRequest& /*request*/, Request& message, Reply& reply) {
    struct stat status {};
    if (!is_memory_file(message.fds.front().get())) {
        return EBADF;  // and nothing is asked of a file system that might not answer
    }
    if (::fstat(message.fds.front().get(), &status) != 0) {
        return errno;
    }
    const ContextToken id{status.st_dev, status.st_ino};
    const auto owner = control_.contexts.find(id);
    if (owner == control_.contexts.end()) {
        return EBADF;
    }
    RnicState& device = *owner->second.client->contexts_.find(owner->second.handle)->device;
    auto context = std::make_unique<ContextObject>();
    if (const int error = make_context(device, context, reply); error != 0) {
        return error;
    }
    context->id = id;
    context->imported = true;
    context->imported_serial = owner->second.serial;
    abi::ImportDeviceReply body{};
    body.caps = client_caps(device.device->caps, control_.limits, control_.num_workers());
    const std::string& name = device.device->name;
    std::copy_n(name.begin(), std::min(name.size(), sizeof body.name - 1), std::begin(body.name));
    body.context = contexts_.add(std::move(context));
    reply.set(body);
    return 0;
}

/// Who has the context that this one was imported by; nullptr: it is none, or that one has gone.
const ContextOwner* Client::owner_of(const ContextObject& context) const {
    const auto owner = control_.contexts.find(context.id);
    return context.imported && owner != control_.contexts.end() &&
                   owner->second.serial == context.imported_serial
               ? &owner->second
               : nullptr;
}

int Client::import_pd(const abi::ImportRequest& request, Request& /*message*/, Reply& reply) {
    ContextObject* context = contexts_.find(request.into);
    if (context == nullptr) {
        return ENOENT;
    }
    const ContextOwner* owner = owner_of(*context);
    if (owner == nullptr) {
        return EINVAL;
    }
    const PdObject* pd = owner->client->pds_.find(request.handle);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (pd->context != owner->client->contexts_.find(owner->handle)) {
        return EINVAL;
    }
    return add_pd(*context, pd->number, reply);
}

int Client::import_mr(const abi::ImportRequest& request, Request& /*message*/, Reply& reply) {
    const PdObject* pd = pds_.find(request.into);
    if (pd == nullptr) {
        return ENOENT;
    }
    const ContextOwner* owner = owner_of(*pd->context);
    if (owner == nullptr) {
        return EINVAL;
    }
    const MrObject* mr = owner->client->mrs_.find(request.handle);
    if (mr == nullptr) {
        return ENOENT;
    }
    if (mr->pd->number != pd->number) {
        return EINVAL;
    }
    abi::ImportMrReply body{};
    body.lkey = body.rkey = mr->key;
    body.length = mr->region.length_bytes;
    reply.set(body);
    return 0;
}

int Client::import_dm(const abi::ImportRequest& request, Request& /*message*/, Reply& reply) {
    ContextObject* context = contexts_.find(request.into);
    if (context == nullptr) {
        return ENOENT;
    }
    const ContextOwner* owner = owner_of(*context);
    if (owner == nullptr) {
        return EINVAL;
    }
    const DmObject* dm = owner->client->dms_.find(request.handle);
    if (dm == nullptr) {
        return ENOENT;
    }
    if (dm->context != owner->client->contexts_.find(owner->handle)) {
        return EINVAL;
    }
    return add_dm(*context, dm->memory, reply);
}

}  // namespace urnic::dataplane
