// Registered memory of a client.
#include <cerrno>

#include "dataplane/client.h"
#include "dataplane/undo.h"
#include "rnic/base/check.h"

namespace urnic::dataplane {

namespace {

/// Bits that a provider may pass on and that change nothing here (IBV_ACCESS_OPTIONAL_RANGE).
constexpr std::uint32_t kOptionalAccess = 0x3ff0'0000;
constexpr std::uint32_t kKnownAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                       kAccessRemoteAtomic | kAccessMwBind | kAccessZeroBased |
                                       kAccessHugetlb | kOptionalAccess;

/// IBA 10.6.3.1 (as ib_check_mr_access): remote write and atomics need local write.
bool is_valid_access(std::uint32_t access) {
    const bool writes_remotely = (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
    return (access & ~kKnownAccess) == 0 && (!writes_remotely || (access & kAccessLocalWrite) != 0);
}

bool wraps(std::uint64_t begin, std::uint64_t length_bytes) { return begin + length_bytes < begin; }

}  // namespace

int Client::attach_memory(const abi::AttachMemoryRequest& /*request*/, Request& message, Reply& /*reply*/) {
    return memory_.attach(std::move(message.fds.front()));
}

int Client::reg_mr(const abi::RegMrRequest& request, Request& /*message*/, Reply& reply) {
    PdObject* pd = pds_.find(request.pd);
    // An empty region may be registered (ibv_rc_pingpong -s 0 does): no access but an empty one fits into it.
    const bool converted = (request.flags & abi::kRegMrConverted) != 0;
    if (pd == nullptr || (request.flags & ~abi::kRegMrConverted) != 0 || !is_valid_access(request.access) ||
        (converted && request.length == 0) || wraps(request.addr, request.length) ||
        wraps(request.iova, request.length)) {
        return EINVAL;
    }
    HostDevice& device = *pd->context->device;
    if (request.length > device.device->caps.max_mr_size) {
        return EINVAL;
    }
    if (mrs_.size() >= host_.limits.max_mrs || device.num_mrs >= device.device->caps.max_mr ||
        request.length > host_.limits.max_registered_bytes - registered_bytes_) {
        return ENOMEM;
    }
    // The table takes the object first: once its key is published nothing may fail.
    auto made = std::make_unique<MrObject>();
    MrObject* mr = made.get();
    abi::RegMrReply body{};
    body.handle = mrs_.add(std::move(made));
    Undo forget([this, handle = body.handle] { mrs_.remove(handle); });
    mr->pd = pd;
    mr->addr = request.addr;
    mr->length_bytes = request.length;
    if (const int error = publish(*mr, request); error != 0) {
        return error;
    }
    forget.keep();
    ++pd->users;
    ++device.num_mrs;
    registered_bytes_ += request.length;
    body.lkey = body.rkey = mr->key;
    reply.set(body);
    return 0;
}

/// Makes the memory reachable and gives it a key. 0 or errno.
int Client::publish(MrObject& mr, const abi::RegMrRequest& request) {
    MemoryRegion region;
    region.iova = request.iova;
    region.length_bytes = request.length;
    region.va = request.addr;
    region.pd = mr.pd->number;
    region.access = request.access;
    if ((request.flags & abi::kRegMrConverted) != 0) {
        if (const int error = memory_.acquire(request.addr, request.length, mr.window); error != 0) {
            return error;
        }
        region.direct = AppMemory::at(*mr.window, request.addr);
    } else {
        region.space = &memory_;
    }
    mr.key = mr.pd->context->device->device->keys.add(region, secure_random());
    if (mr.key == 0 && mr.window != nullptr) {
        memory_.release(mr.window);
    }
    return mr.key == 0 ? ENOMEM : 0;
}

int Client::dereg_mr(const abi::HandleRequest& request, Request& /*message*/, Reply& /*reply*/) {
    MrObject* mr = mrs_.find(request.handle);
    if (mr == nullptr) {
        return EINVAL;
    }
    URNIC_CHECK(mr->pd->context->device->device->keys.remove(mr->key));
    host_.barrier();
    forget_mr(*mr);
    mrs_.remove(request.handle);
    return 0;
}

/// The key is removed and every worker has passed a loop boundary since.
void Client::forget_mr(MrObject& mr) {
    HostDevice& device = *mr.pd->context->device;
    device.device->keys.release(mr.key);
    if (mr.window != nullptr) {
        memory_.release(mr.window);
    }
    registered_bytes_ -= mr.length_bytes;
    --device.num_mrs;
    --mr.pd->users;
}

void Client::remove_mrs(const ContextObject* context) {
    const auto ours = [&](const MrObject& mr) { return context == nullptr || mr.pd->context == context; };
    bool any = false;
    for (const auto& [handle, mr] : mrs_) {
        if (ours(*mr)) {
            URNIC_CHECK(mr->pd->context->device->device->keys.remove(mr->key));
            any = true;
        }
    }
    if (!any) {
        return;
    }
    host_.barrier();  // one for all of them
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
