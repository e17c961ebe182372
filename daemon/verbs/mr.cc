// Registered memory of a client.
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "daemon/ipc/fd_closer.h"
#include "daemon/verbs/client.h"
#include "daemon/verbs/mr_access.h"
#include "os/rollback.h"
#include "os/secure_random.h"

namespace urnic::dataplane {

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

}  // namespace

int Client::attach_memory(const abi::AttachMemoryRequest& /*request*/, Request& message, Reply& /*reply*/) {
    return is_memory_file(message.fds.front().get()) ? memory_.attach(std::move(message.fds.front()))
                                                     : EINVAL;
}

/// ENOMEM: the client or the device has as many regions as it may.
int Client::check_mr_room(const PdObject& pd) const {
    const RnicState& device = *pd.context->device;
    return mrs_.size() >= control_.limits.max_mrs || device.num_mrs >= device.device->caps.max_mr ? ENOMEM
                                                                                                  : 0;
}

int Client::reg_mr(const abi::RegMrRequest& request, Request& /*message*/, Reply& reply) {
    PdObject* pd = pds_.find(request.pd);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (!is_valid_access(request.access) || !is_valid_range(request) ||
        request.length > pd->context->device->device->caps.max_mr_size) {
        return EINVAL;
    }
    if (const int error = check_mr_room(*pd); error != 0) {
        return error;
    }
    if (request.length > control_.limits.max_registered_bytes - registered_bytes_) {
        return ENOMEM;
    }
    auto mr = std::make_unique<MrObject>();
    mr->pd = pd;
    mr->addr = request.addr;
    mr->length_bytes = request.length;
    mr->region.access = request.access;
    if (const int error = map_region(request, mr->region, mr->window); error != 0) {
        return error;
    }
    return add_mr(std::move(mr), reply);
}

/// Finds where the memory lies and fills that part of `region`. 0 or errno; then the window is not held.
int Client::map_region(const abi::RegMrRequest& request, MemoryRegion& region, AppMemory::Window*& window) {
    region.iova = request.iova;
    region.length_bytes = request.length;
    region.va = request.addr;
    region.direct = nullptr;
    region.space = nullptr;
    if ((request.flags & abi::kRegMrConverted) == 0) {
        region.space = &memory_;
        return 0;
    }
    if (const int error = memory_.acquire(request.addr, request.length, window); error != 0) {
        return error;
    }
    region.direct = AppMemory::at(*window, request.addr);
    return 0;
}

/// Takes the region in, gives it a key, counts it and answers. ENOMEM: there is no key; then its window is
/// not held any more either.
int Client::add_mr(std::unique_ptr<MrObject> made, Reply& reply) {
    MrObject& mr = *made;
    Rollback release([this, window = mr.window, addr = mr.addr, length_bytes = mr.length_bytes] {
        if (window != nullptr) {
            memory_.release(window, addr, length_bytes);
        }
    });
    // The table takes the object first: once its key is published nothing may fail.
    const std::uint32_t handle = mrs_.add(std::move(made));
    Rollback forget([this, handle] { mrs_.remove(handle); });
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
    registered_bytes_ += mr.length_bytes;
    if (mr.dm != nullptr) {
        ++mr.dm->users;
    }
    abi::RegMrReply body{};
    body.handle = handle;
    body.lkey = body.rkey = mr.key;
    reply.set(body);
    return 0;
}

int Client::alloc_null_mr(const abi::HandleRequest& request, Request& /*message*/, Reply& reply) {
    PdObject* pd = pds_.find(request.handle);
    if (pd == nullptr) {
        return ENOENT;
    }
    if (const int error = check_mr_room(*pd); error != 0) {
        return error;
    }
    auto mr = std::make_unique<MrObject>();
    mr->pd = pd;
    mr->is_null = true;
    mr->region.length_bytes = ~std::uint64_t{0};
    mr->region.space = &null_space;
    mr->region.access = kAccessLocalWrite;
    return add_mr(std::move(mr), reply);
}

int Client::rereg_mr(const abi::ReregMrRequest& request, Request& /*message*/, Reply& /*reply*/) {
    constexpr std::uint32_t kKnown = abi::kReregMrTranslation | abi::kReregMrPd | abi::kReregMrAccess;
    const auto changes = [&](std::uint32_t what) { return (request.changes & what) != 0; };
    MrObject* mr = mrs_.find(request.mr);
    if (mr == nullptr) {
        return ENOENT;
    }
    if (request.changes == 0 || (request.changes & ~kKnown) != 0) {
        return EINVAL;
    }
    if (mr->is_null || mr->dm != nullptr) {
        return EOPNOTSUPP;
    }
    PdObject* pd = changes(abi::kReregMrPd) ? pds_.find(request.pd) : mr->pd;
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
        const std::uint64_t others = registered_bytes_ - mr->length_bytes;
        if (memory.length > control_.limits.max_registered_bytes - others) {
            return ENOMEM;
        }
        if (const int error = map_region(memory, region, window); error != 0) {
            return error;
        }
    }
    KeyTable& keys = mr->pd->context->device->device->keys;
    if (!keys.close(mr->key)) {
        if (window != nullptr) {
            memory_.release(window, memory.addr, memory.length);
        }
        return EBUSY;
    }
    // Nothing fails from here on.
    URNIC_CHECK(keys.remove(mr->key));
    control_.barrier();
    keys.replace(mr->key, region);
    mr->region = region;
    --mr->pd->users;
    mr->pd = pd;
    ++pd->users;
    if (changes(abi::kReregMrTranslation)) {
        if (mr->window != nullptr) {
            memory_.release(mr->window, mr->addr, mr->length_bytes);
        }
        mr->window = window;
        mr->addr = memory.addr;
        registered_bytes_ += memory.length - mr->length_bytes;
        mr->length_bytes = memory.length;
    }
    return 0;
}

int Client::dereg_mr(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    MrObject* mr = mrs_.find(request.handle);
    if (mr == nullptr) {
        return ENOENT;
    }
    KeyTable& keys = mr->pd->context->device->device->keys;
    if (!keys.close(mr->key)) {
        return EBUSY;
    }
    URNIC_CHECK(keys.remove(mr->key));
    control_.barrier();
    forget_mr(*mr);
    mrs_.remove(request.handle);
    return 0;
}

/// The key is removed and every worker has passed a loop boundary since.
void Client::forget_mr(MrObject& mr) {
    RnicState& device = *mr.pd->context->device;
    device.device->keys.release(mr.key);
    if (mr.window != nullptr) {
        memory_.release(mr.window, mr.addr, mr.length_bytes);
    }
    if (mr.dm != nullptr) {
        --mr.dm->users;
    }
    registered_bytes_ -= mr.length_bytes;
    --device.num_mrs;
    --mr.pd->users;
}

void Client::remove_mrs(const ContextObject* context) {
    const auto ours = [&](const MrObject& mr) { return context == nullptr || mr.pd->context == context; };
    bool any = false;
    bool others_windows = false;
    for (const auto& [handle, mr] : mrs_) {
        if (ours(*mr)) {
            KeyTable& keys = mr->pd->context->device->device->keys;
            // Our own windows are gone. What is left belongs to those who share the PD.
            if (!keys.close(mr->key)) {
                keys.force_close(mr->key);
                others_windows = true;
            }
            URNIC_CHECK(keys.remove(mr->key));
            any = true;
        }
    }
    if (!any) {
        return;
    }
    control_.barrier();  // one for all of them
    if (others_windows) {
        for (const auto& device : control_.devices) {
            device->device->keys.unbind_closed();
        }
        control_.barrier();
    }
    for (auto entry = mrs_.begin(); entry != mrs_.end();) {
        if (ours(*entry->second)) {
            forget_mr(*entry->second);
            entry = mrs_.remove(entry);
        } else {
            ++entry;
        }
    }
}

}  // namespace urnic::dataplane
