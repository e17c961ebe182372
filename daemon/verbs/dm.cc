// Device memory of a client.
#include <cerrno>

#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/dm.h"
#include "daemon/verbs/mr.h"
#include "daemon/verbs/mr_access.h"
#include "daemon/verbs/operations.h"

namespace urnic::daemon {

namespace {

/// Of a region of device memory, as the kernel has it for hardware: remote access, and addresses from 0.
constexpr std::uint32_t kDmAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                    kAccessRemoteAtomic | kAccessZeroBased | kOptionalAccess;

/// No region lies in it any more.
void forget_dm(ClientState& client, const DmObject& dm) {
    const std::uint64_t bytes = abi::round_up(dm.memory->length_bytes, 4096);
    client.device_memory_bytes -= bytes;
    client.user.bytes(ByteResource::kDeviceMemory) -= bytes;
    --dm.context->device->num_dms;
}

int alloc_dm(ClientState& client, const abi::AllocDmRequest& request, Reply& reply) {
    ContextObject* context = client.contexts.find(request.context);
    if (context == nullptr) {
        return ENOENT;
    }
    if (request.length == 0) {
        return EINVAL;
    }
    if (request.length > context->device->device->caps.max_dm_bytes) {
        return ENOMEM;
    }
    auto memory = std::make_shared<DeviceMemory>();
    memory->length_bytes = request.length;
    return add_dm(client, *context, std::move(memory), reply);
}

int free_dm(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    const DmObject* dm = client.dms.find(request.handle);
    if (dm == nullptr) {
        return ENOENT;
    }
    if (dm->users > 0) {
        return EBUSY;
    }
    forget_dm(client, *dm);
    client.dms.remove(request.handle);
    return 0;
}

int reg_dm_mr(ClientState& client, const abi::RegDmMrRequest& request, Reply& reply) {
    PdObject* pd = client.pds.find(request.pd);
    DmObject* dm = client.dms.find(request.dm);
    if (pd == nullptr || dm == nullptr) {
        return ENOENT;
    }
    if (pd->context->device != dm->context->device || !is_valid_access(request.access) ||
        (request.access & ~kDmAccess) != 0 || (request.access & kAccessZeroBased) == 0) {
        return EINVAL;
    }
    const std::uint64_t total = dm->memory->length_bytes;
    if (request.length > total || request.offset > total - request.length) {
        return EINVAL;
    }
    if (const int error = check_mr_room(client, *pd); error != 0) {
        return error;
    }
    auto mr = std::make_unique<MrObject>();
    mr->pd = pd;
    mr->dm = dm;
    mr->region.length_bytes = request.length;
    mr->region.va = request.offset;
    mr->region.direct = dm->memory->file.mapping.data() + request.offset;
    mr->region.access = request.access;
    return add_mr(client, std::move(mr), reply);
}

constexpr Operation kDmOperations[] = {
    operation<alloc_dm>(abi::Op::kAllocDm),
    operation<free_dm>(abi::Op::kFreeDm),
    operation<reg_dm_mr>(abi::Op::kRegDmMr),
};

}  // namespace

/// The client gets the memory, making its file if it has none yet.
int add_dm(ClientState& client, ContextObject& context, std::shared_ptr<DeviceMemory> memory, Reply& reply) {
    const std::uint64_t bytes = abi::round_up(memory->length_bytes, 4096);
    if (client.dms.size() >= client.control.limits.max_dms || !client.user.has_room(Resource::kDms) ||
        bytes > client.control.limits.max_device_memory_bytes - client.device_memory_bytes ||
        !client.user.has_room(ByteResource::kDeviceMemory, bytes)) {
        return ENOMEM;
    }
    if (!memory->file.fd) {
        if (const int error = create_memfd("urnic-dm", bytes, Sharing::kWritable, memory->file); error != 0) {
            return error;
        }
    }
    auto dm = std::make_unique<DmObject>();
    dm->context = &context;
    dm->memory = std::move(memory);
    const int fd = dm->memory->file.fd.get();
    abi::DmReply body{};
    body.length = dm->memory->length_bytes;
    body.handle = client.dms.add(std::move(dm));
    client.device_memory_bytes += bytes;
    client.user.bytes(ByteResource::kDeviceMemory) += bytes;
    ++context.device->num_dms;
    reply.set(body);
    reply.fds = {fd};
    return 0;
}

bool remove_dms(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.dms, [&](const DmObject& dm) { return context == nullptr || dm.context == context; });
    return remove_batch(client.dms, batch, [&](DmObject& dm) { forget_dm(client, dm); });
}

Operations dm_operations() { return kDmOperations; }

}  // namespace urnic::daemon
