// Registered memory of a client.

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "daemon/ipc/fd_closer.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/mr.h"
#include "daemon/verbs/mr_access.h"
#include "daemon/verbs/operations.h"
#include "os/rollback.h"
#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

bool wraps(std::uint64_t begin, std::uint64_t length_bytes) { return begin + length_bytes < begin; }

/// What cannot be a region, whoever asks.
bool is_valid_range(const abi::RegMrRequest& request) {
    // An empty region may be registered (ibv_rc_pingpong -s 0 does): no access but an empty one fits into it.
    const bool converted = (request.flags & abi::kRegMrConverted) != 0;
    return (request.flags & ~abi::kRegMrConverted) == 0 && !(converted && request.length == 0) &&
           !wraps(request.addr, request.length) && !wraps(request.iova, request.length);
}

/// Memory that swallows what is written and reads as zeros (ibv_alloc_null_mr).
class NullSpace final : public AddressSpace {
  public:
    bool read(std::uint64_t /*va*/, std::byte* to, std::size_t length_bytes) override {
        std::memset(to, 0, length_bytes);
        return true;
    }
    bool write(std::uint64_t /*va*/, const std::byte* /*from*/, std::size_t /*length_bytes*/) override {
        return true;
    }
};
NullSpace null_space;  // has no state: for all

/// A page that does not come stops the worker that copies it: nobody else's user may do that.
bool may_be_copied(const ClientState& client) {
    return client.user.is_privileged() || client.control.limits.copied_memory_for_all;
}

/// Finds where the memory lies and fills that part of `region`. 0 or errno; then the window is not held.
int map_region(ClientState& client, const abi::RegMrRequest& request, MemoryRegion& region,
               AppMemory::Window*& window) {
    region.iova = request.iova;
    region.length_bytes = request.length;
    region.va = request.addr;
    region.direct = nullptr;
    region.space = nullptr;
    if ((request.flags & abi::kRegMrConverted) == 0) {
        if (request.length != 0 && !may_be_copied(client)) {
            client.user.refuse("memory that has to be copied (copied_memory in [daemon])");
            return EPERM;
        }
        region.space = &client.memory;
        return 0;
    }
    if (const int error = client.memory.acquire(request.addr, request.length, window); error != 0) {
        return error;
    }
    region.direct = AppMemory::at(*window, request.addr);
    return 0;
}

/// Returns whether a region may have `wanted` bytes instead of `had`, by the client's limit and its user's.
bool has_room_to_register(ClientState& client, std::uint64_t had, std::uint64_t wanted) {
    return wanted <= client.control.limits.max_registered_bytes - (client.registered_bytes - had) &&
           (wanted <= had || client.user.has_room(ByteResource::kRegistered, wanted - had));
}

void change_registered_bytes(ClientState& client, std::uint64_t had, std::uint64_t has) {
    client.registered_bytes += has - had;
    client.user.bytes(ByteResource::kRegistered) += has - had;
}

/// The key is removed and every worker has passed a loop boundary since.
void forget_mr(ClientState& client, MrObject& mr) {
    RnicState& device = *mr.pd->context->device;
    device.device->keys.release(mr.key);
    if (mr.window != nullptr) {
        client.memory.release(mr.window, mr.addr, mr.length_bytes);
    }
    if (mr.dm != nullptr) {
        --mr.dm->users;
    }
    change_registered_bytes(client, mr.length_bytes, 0);
    --device.num_mrs;
    --mr.pd->users;
}

int attach_memory(ClientState& client, const abi::AttachMemoryRequest& /*request*/, Request& message,
                  Reply& /*reply*/) {
    const int error = is_memory_file(message.fds.front().get())
                          ? client.memory.attach(std::move(message.fds.front()))
                          : EINVAL;
    if (error == EINVAL) {
        client.user.refuse("a descriptor that is no sealed memory file");
    }
    return error;
}

int attach_process(ClientState& client, const abi::AttachProcessRequest& /*request*/, Request& message,
                   Reply& /*reply*/) {
    const int error = client.memory.process().attach(client.pid, message.fds[0], message.fds[1]);
    if (error == EINVAL) {
        client.user.refuse("descriptors that are not of its process's memory");
    }
    if (error == ENOSYS) {
        client.user.refuse(
            "memory that has to be copied: openat2() is refused to urnicd (remove RestrictSUIDSGID= from its "
            "unit, or allow the call in the container's seccomp profile)");
    }
    return error;
}

int reg_mr(ClientState& client, const abi::RegMrRequest& request, Reply& reply) {
    PdObject* pd = client.pds.find(request.pd);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (!is_valid_access(request.access) || !is_valid_range(request) ||
        request.length > pd->context->device->device->caps.max_mr_size) {
        return EINVAL;
    }
    if (const int error = check_mr_room(client, *pd); error != 0) {
        return error;
    }
    if (!has_room_to_register(client, 0, request.length)) {
        return ENOMEM;
    }
    auto mr = std::make_unique<MrObject>();
    mr->pd = pd;
    mr->addr = request.addr;
    mr->length_bytes = request.length;
    mr->region.access = request.access;
    if (const int error = map_region(client, request, mr->region, mr->window); error != 0) {
        return error;
    }
    return add_mr(client, std::move(mr), reply);
}

int alloc_null_mr(ClientState& client, const abi::HandleRequest& request, Reply& reply) {
    PdObject* pd = client.pds.find(request.handle);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (const int error = check_mr_room(client, *pd); error != 0) {
        return error;
    }
    auto mr = std::make_unique<MrObject>();
    mr->pd = pd;
    mr->is_null = true;
    mr->region.length_bytes = ~std::uint64_t{0};
    mr->region.space = &null_space;
    mr->region.access = kAccessLocalWrite;
    return add_mr(client, std::move(mr), reply);
}

int rereg_mr(ClientState& client, const abi::ReregMrRequest& request, Reply& /*reply*/) {
    constexpr std::uint32_t kKnown = abi::kReregMrTranslation | abi::kReregMrPd | abi::kReregMrAccess;
    const auto changes = [&](std::uint32_t what) { return (request.changes & what) != 0; };
    MrObject* mr = client.mrs.find(request.mr);
    if (mr == nullptr) {
        return ENOENT;
    }
    if (request.changes == 0 || (request.changes & ~kKnown) != 0) {
        return EINVAL;
    }
    if (mr->is_null || mr->dm != nullptr) {
        return EOPNOTSUPP;
    }
    PdObject* pd = changes(abi::kReregMrPd) ? client.pds.find(request.pd) : mr->pd;
    abi::RegMrRequest memory{};
    memory.addr = request.addr;
    memory.length = request.length;
    memory.iova = request.iova;
    memory.flags = request.memory_flags;
    if (pd == nullptr) {
        return ENOENT;
    }
    if (pd->context != mr->pd->context ||
        (changes(abi::kReregMrAccess) && !is_valid_access(request.access)) ||
        (changes(abi::kReregMrTranslation) && !is_valid_range(memory))) {
        return EINVAL;
    }
    MemoryRegion region = mr->region;
    region.pd = pd->number;
    region.access = changes(abi::kReregMrAccess) ? request.access : region.access;
    AppMemory::Window* window = nullptr;
    if (changes(abi::kReregMrTranslation)) {
        if (!has_room_to_register(client, mr->length_bytes, memory.length)) {
            return ENOMEM;
        }
        if (const int error = map_region(client, memory, region, window); error != 0) {
            return error;
        }
    }
    KeyTable& keys = mr->pd->context->device->device->keys;
    if (!keys.close(mr->key)) {
        if (window != nullptr) {
            client.memory.release(window, memory.addr, memory.length);
        }
        return EBUSY;
    }
    // Nothing fails from here on.
    URNIC_CHECK(keys.remove(mr->key));
    client.control.barrier();
    keys.replace(mr->key, region);
    mr->region = region;
    --mr->pd->users;
    mr->pd = pd;
    ++pd->users;
    if (changes(abi::kReregMrTranslation)) {
        if (mr->window != nullptr) {
            client.memory.release(mr->window, mr->addr, mr->length_bytes);
        }
        mr->window = window;
        mr->addr = memory.addr;
        change_registered_bytes(client, mr->length_bytes, memory.length);
        mr->length_bytes = memory.length;
    }
    return 0;
}

int dereg_mr(ClientState& client, const abi::HandleRequest& request, Reply& /*reply*/) {
    MrObject* mr = client.mrs.find(request.handle);
    if (mr == nullptr) {
        return ENOENT;
    }
    KeyTable& keys = mr->pd->context->device->device->keys;
    if (!keys.close(mr->key)) {
        return EBUSY;
    }
    URNIC_CHECK(keys.remove(mr->key));
    client.control.barrier();
    forget_mr(client, *mr);
    client.mrs.remove(request.handle);
    return 0;
}

constexpr Operation kMrOperations[] = {
    operation<attach_memory>(abi::Op::kAttachMemory, 1),
    operation<attach_process>(abi::Op::kAttachProcess, 2),
    operation<reg_mr>(abi::Op::kRegMr),
    operation<alloc_null_mr>(abi::Op::kAllocNullMr),
    operation<rereg_mr>(abi::Op::kReregMr),
    operation<dereg_mr>(abi::Op::kDeregMr),
};

}  // namespace

/// ENOMEM: the client, its user or the device has as many regions as it may.
int check_mr_room(const ClientState& client, const PdObject& pd) {
    const RnicState& device = *pd.context->device;
    return client.mrs.size() >= client.control.limits.max_mrs ||
                   device.num_mrs >= device.device->caps.max_mr || !client.user.has_room(Resource::kMrs)
               ? ENOMEM
               : 0;
}

/// Takes the region in, gives it a key, counts it and answers. ENOMEM: there is no key; then its window is
/// not held any more either.
int add_mr(ClientState& client, std::unique_ptr<MrObject> made, Reply& reply) {
    MrObject& mr = *made;
    Rollback release([&client, window = mr.window, addr = mr.addr, length_bytes = mr.length_bytes] {
        if (window != nullptr) {
            client.memory.release(window, addr, length_bytes);
        }
    });
    // The table takes the object first: once its key is published nothing may fail.
    const std::uint32_t handle = client.mrs.add(std::move(made));
    Rollback forget([&client, handle] { client.mrs.remove(handle); });
    RnicState& device = *mr.pd->context->device;
    mr.region.pd = mr.pd->number;
    mr.key = device.device->keys.add(mr.region, secure_random());
    if (mr.key == 0) {
        return ENOMEM;
    }
    release.keep();
    forget.keep();
    ++mr.pd->users;
    ++device.num_mrs;
    change_registered_bytes(client, 0, mr.length_bytes);
    if (mr.dm != nullptr) {
        ++mr.dm->users;
    }
    abi::RegMrReply body{};
    body.handle = handle;
    body.lkey = body.rkey = mr.key;
    reply.set(body);
    return 0;
}

bool remove_mrs(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.mrs, [&](const MrObject& mr) { return context == nullptr || mr.pd->context == context; });
    if (batch.empty()) {
        return false;
    }
    bool others_windows = false;
    for (const auto at : batch) {
        const MrObject& mr = *at->second;
        KeyTable& keys = mr.pd->context->device->device->keys;
        // Our own windows have ended. What is left belongs to those who share the PD.
        if (!keys.close(mr.key)) {
            keys.force_close(mr.key);
            others_windows = true;
        }
        URNIC_CHECK(keys.remove(mr.key));
    }
    client.control.barrier();  // one for all of them
    if (others_windows) {
        for (const auto& device : client.control.devices) {
            device->device->keys.unbind_closed();
        }
        client.control.barrier();
    }
    return remove_batch(client.mrs, batch, [&](MrObject& mr) { forget_mr(client, mr); });
}

Operations mr_operations() { return kMrOperations; }

}  // namespace urnic::daemon
