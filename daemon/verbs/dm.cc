// Device memory of a client.
#include <cerrno>

#include "daemon/verbs/client.h"
#include "daemon/verbs/mr_access.h"

namespace urnic::dataplane {

namespace {

/// Of a region of device memory, as the kernel has it for hardware: remote access, and addresses from 0.
constexpr std::uint32_t kDmAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                    kAccessRemoteAtomic | kAccessZeroBased | kOptionalAccess;

}  // namespace

int Client::alloc_dm(const abi::AllocDmRequest& request, Request& /*message*/, Reply& reply) {
    ContextObject* context = contexts_.find(request.context);
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
    return add_dm(*context, std::move(memory), reply);
}

/// The client gets the memory, making its file if it has none yet.
int Client::add_dm(ContextObject& context, std::shared_ptr<DeviceMemory> memory, Reply& reply) {
    const std::uint64_t bytes = abi::round_up(memory->length_bytes, 4096);
    if (dms_.size() >= control_.limits.max_dms ||
        bytes > control_.limits.max_device_memory_bytes - device_memory_bytes_) {
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
    body.handle = dms_.add(std::move(dm));
    device_memory_bytes_ += bytes;
    ++context.device->num_dms;
    reply.set(body);
    reply.fds = {fd};
    return 0;
}

int Client::free_dm(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    const DmObject* dm = dms_.find(request.handle);
    if (dm == nullptr) {
        return ENOENT;
    }
    if (dm->users > 0) {
        return EBUSY;
    }
    forget_dm(*dm);
    dms_.remove(request.handle);
    return 0;
}

int Client::reg_dm_mr(const abi::RegDmMrRequest& request, Request& /*message*/, Reply& reply) {
    PdObject* pd = pds_.find(request.pd);
    DmObject* dm = dms_.find(request.dm);
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
    if (const int error = check_mr_room(*pd); error != 0) {
        return error;
    }
    auto mr = std::make_unique<MrObject>();
    mr->pd = pd;
    mr->dm = dm;
    mr->region.length_bytes = request.length;
    mr->region.va = request.offset;
    mr->region.direct = dm->memory->file.mapping.data() + request.offset;
    mr->region.access = request.access;
    return add_mr(std::move(mr), reply);
}

/// No region lies in it any more.
void Client::forget_dm(const DmObject& dm) {
    device_memory_bytes_ -= abi::round_up(dm.memory->length_bytes, 4096);
    --dm.context->device->num_dms;
}

void Client::remove_dms(const ContextObject* context) {
    for (auto entry = dms_.begin(); entry != dms_.end();) {
        if (context == nullptr || entry->second->context == context) {
            forget_dm(*entry->second);
            entry = dms_.remove(entry);
        } else {
            ++entry;
        }
    }
}

}  // namespace urnic::dataplane
