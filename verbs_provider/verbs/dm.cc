// Device memory: pages of the daemon's, mapped here for the application's own copies.
#include <errno.h>
#include <sys/mman.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

/// As mlx5: copies are of whole words.
constexpr std::uint64_t kAlignment = 4;
constexpr std::uint32_t kMaxLogAlign = 12;  // pages

Dm* dm_of(struct ibv_dm* dm) { return reinterpret_cast<Dm*>(dm); }

bool may_copy(const Dm& dm, std::uint64_t offset, std::size_t length) {
    return offset % kAlignment == 0 && length % kAlignment == 0 && offset <= dm.length &&
           length <= dm.length - offset;
}

int copy_to(struct ibv_dm* ibv_dm, std::uint64_t offset, const void* from, std::size_t length) {
    const Dm& dm = *dm_of(ibv_dm);
    if (!may_copy(dm, offset, length)) {
        errno = EFAULT;
        return EFAULT;
    }
    std::memcpy(dm.memory + offset, from, length);
    return 0;
}

int copy_from(void* to, struct ibv_dm* ibv_dm, std::uint64_t offset, std::size_t length) {
    const Dm& dm = *dm_of(ibv_dm);
    if (!may_copy(dm, offset, length)) {
        errno = EFAULT;
        return EFAULT;
    }
    std::memcpy(to, dm.memory + offset, length);
    return 0;
}

}  // namespace

struct ibv_dm* make_dm(Context& context, const abi::DmReply& reply, const ReplyFds& fds) {
    const std::size_t bytes = abi::round_up(reply.length, 4096);
    auto* dm = make_object<Dm>();
    void* memory = dm != nullptr ? map_shared(fds.peek(0), bytes, 0, true) : nullptr;
    if (memory == nullptr) {
        const int error = errno;
        (void)context.session->call_handle(abi::Op::kFreeDm, reply.handle);
        if (dm != nullptr) {
            free_object(dm);
        }
        errno = error;
        return nullptr;
    }
    dm->length = reply.length;
    dm->mapped_bytes = bytes;
    dm->memory = static_cast<std::byte*>(memory);
    dm->dm.context = &context.verbs.context;
    dm->dm.memcpy_to_dm = copy_to;
    dm->dm.memcpy_from_dm = copy_from;
    dm->dm.comp_mask = IBV_DM_MASK_HANDLE;
    dm->dm.handle = reply.handle;
    return &dm->dm;
}

struct ibv_dm* alloc_dm(struct ibv_context* ibv_context, struct ibv_alloc_dm_attr* attr) {
    Context* context = usable_context(*context_of(ibv_context));
    if (context == nullptr) {
        return nullptr;
    }
    if (attr->comp_mask != 0 || attr->length == 0 || attr->length > context->caps.max_dm_bytes ||
        attr->log_align_req > kMaxLogAlign) {
        errno = EINVAL;
        return nullptr;
    }
    abi::AllocDmRequest request{};
    request.context = context->handle;
    request.length = attr->length;
    abi::DmReply reply{};
    ReplyFds fds;
    const int error = context->session->call(abi::Op::kAllocDm, request, reply, &fds);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return make_dm(*context, reply, fds);
}

int free_dm(struct ibv_dm* ibv_dm) {
    Dm* dm = dm_of(ibv_dm);
    Session* session = context_of(ibv_dm->context)->session;
    const int error = session->call_handle(abi::Op::kFreeDm, ibv_dm->handle);
    if (session->is_refusal(error)) {
        return error;
    }
    munmap(dm->memory, dm->mapped_bytes);
    free_object(dm);
    return 0;
}

struct ibv_mr* reg_dm_mr(struct ibv_pd* pd, struct ibv_dm* dm, std::uint64_t offset, std::size_t length,
                         unsigned int access) {
    auto* mr = make_object<Mr>();
    if (mr == nullptr) {
        return nullptr;
    }
    abi::RegDmMrRequest request{};
    request.pd = pd->handle;
    request.dm = dm->handle;
    request.access = access;
    request.offset = offset;
    request.length = length;
    abi::RegMrReply reply{};
    mr->base.access = static_cast<int>(access);
    const int error = context_of(pd->context)->session->call(abi::Op::kRegDmMr, request, reply);
    return finish_mr(mr, error, pd, reply, length, kMrNull);  // no memory of the application's
}

}  // namespace urnic::provider
