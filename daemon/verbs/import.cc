// Objects of other clients, shared by the command fd of a context (ibv_import_device). A protection domain is
// a number, so whoever imports it has one of his own with the same number; a region stays its owner's, and
// ends with him.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "daemon/ipc/fd_closer.h"
#include "daemon/verbs/client_caps.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/device.h"
#include "daemon/verbs/dm.h"
#include "daemon/verbs/operations.h"

namespace urnic::daemon {

namespace {

/// Who has the context that this one was imported by; nullptr: it is none, or that one was closed.
const ContextOwner* owner_of(const ClientState& client, const ContextObject& context) {
    const auto owner = client.control.contexts.find(context.id);
    return context.imported && owner != client.control.contexts.end() &&
                   owner->second.serial == context.imported_serial
               ? &owner->second
               : nullptr;
}

int import_device(ClientState& client, const abi::ImportDeviceRequest& /*request*/, Request& message,
                  Reply& reply) {
    struct stat status {};
    if (!is_memory_file(message.fds.front().get())) {
        client.user.refuse("a descriptor of no context");
        return EBADF;  // and nothing is asked of a file system that might not answer
    }
    if (::fstat(message.fds.front().get(), &status) != 0) {
        return errno;
    }
    const ContextToken id{status.st_dev, status.st_ino};
    const auto owner = client.control.contexts.find(id);
    if (owner == client.control.contexts.end()) {
        client.user.refuse("a descriptor of no context");
        return EBADF;
    }
    RnicState& device = *owner->second.client->contexts.find(owner->second.handle)->device;
    auto context = std::make_unique<ContextObject>();
    if (const int error = make_context(client, device, context, reply); error != 0) {
        return error;
    }
    context->id = id;
    context->imported = true;
    context->imported_serial = owner->second.serial;
    abi::ImportDeviceReply body{};
    body.caps =
        client_caps(device.device->caps, client.control.limits, client.user, client.control.num_workers());
    const std::string& name = device.device->name;
    std::copy_n(name.begin(), std::min(name.size(), sizeof body.name - 1), std::begin(body.name));
    body.context = client.contexts.add(std::move(context));
    reply.set(body);
    return 0;
}

/// The object that is to come into `context`, of the client that has the context which that one was imported
/// by. 0 or errno.
template <typename Object>
int find_object(const ClientState& client, const abi::ImportRequest& request,
                HandleTable<Object> ClientState::*objects, ContextObject*& context, const Object*& object) {
    context = client.contexts.find(request.into);
    if (context == nullptr) {
        return ENOENT;
    }
    const ContextOwner* owner = owner_of(client, *context);
    if (owner == nullptr) {
        return EINVAL;
    }
    object = (owner->client->*objects).find(request.handle);
    if (object == nullptr) {
        return ENOENT;
    }
    return object->context == owner->client->contexts.find(owner->handle) ? 0 : EINVAL;
}

int import_pd(ClientState& client, const abi::ImportRequest& request, Reply& reply) {
    ContextObject* context = nullptr;
    const PdObject* pd = nullptr;
    const int error = find_object(client, request, &ClientState::pds, context, pd);
    return error != 0 ? error : add_pd(client, *context, pd->keeps_number, reply);
}

int import_mr(ClientState& client, const abi::ImportRequest& request, Reply& reply) {
    const PdObject* pd = client.pds.find(request.into);
    if (pd == nullptr) {
        return ENOENT;
    }
    const ContextOwner* owner = owner_of(client, *pd->context);
    if (owner == nullptr) {
        return EINVAL;
    }
    const MrObject* mr = owner->client->mrs.find(request.handle);
    if (mr == nullptr) {
        return ENOENT;
    }
    if (mr->pd->number != pd->number) {
        client.user.refuse("a region of another protection domain");
        return EINVAL;
    }
    abi::ImportMrReply body{};
    body.lkey = body.rkey = mr->key;
    body.length = mr->region.length_bytes;
    reply.set(body);
    return 0;
}

int import_dm(ClientState& client, const abi::ImportRequest& request, Reply& reply) {
    ContextObject* context = nullptr;
    const DmObject* dm = nullptr;
    const int error = find_object(client, request, &ClientState::dms, context, dm);
    return error != 0 ? error : add_dm(client, *context, dm->memory, reply);
}

constexpr Operation kImportOperations[] = {
    operation<import_device>(abi::Op::kImportDevice, 1),
    operation<import_pd>(abi::Op::kImportPd),
    operation<import_mr>(abi::Op::kImportMr),
    operation<import_dm>(abi::Op::kImportDm),
};

}  // namespace

Operations import_operations() { return kImportOperations; }

}  // namespace urnic::daemon
