// Memory regions.
#include <errno.h>
#include <stdio.h>

#include <atomic>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

constexpr std::uint32_t kOffered = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                   kAccessRemoteAtomic | kAccessMwBind | kAccessZeroBased | kAccessHugetlb |
                                   kAccessRelaxedOrdering | kAccessFlushGlobal | kAccessFlushPersistent;

constexpr std::uint32_t kWriting = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic;

/// Moves the range into the memory file if that can be done; errno if it cannot be registered at all. An
/// empty range is a region that no access fits into.
int prepare_memory(Session& session, const abi::RegMrRequest& request, memory::Registration& registration) {
    if (request.length == 0) {
        return 0;
    }
    if (session.attach_memory()) {
        registration = memory::convert(request.addr, request.length, (request.access & kWriting) != 0);
    }
    if (registration.error != 0) {
        return registration.error;
    }
    if (registration.converted) {
        memory::populate(registration, (request.access & kWriting) != 0);
        return 0;
    }
    return session.attach_process();
}

/// Optional flags (IBV_ACCESS_OPTIONAL_RANGE) may be ignored; any other that is not offered may not.
bool is_offered(std::uint32_t access) {
    return (access & ~kOffered & ~static_cast<std::uint32_t>(IBV_ACCESS_OPTIONAL_RANGE)) == 0;
}

/// Addresses of a zero-based region begin at 0, whatever else was asked for.
std::uint64_t first_address(std::uint32_t access, std::uint64_t iova) {
    return (access & kAccessZeroBased) != 0 ? 0 : iova;
}

/// The daemon copies the memory of its own user alone; once a process.
void explain_refusal(int error, const abi::RegMrRequest& request) {
    static std::atomic<bool> was_explained{false};
    if (error == EPERM && (request.flags & abi::kRegMrConverted) == 0 && !was_explained.exchange(true)) {
        fprintf(
            stderr,
            "urnic: the memory at %#llx, %llu bytes, is not registered: it is a file, shared, of huge pages, "
            "or otherwise no private anonymous memory, and urnicd copies such memory for its own user alone. "
            "Use memory of malloc() or mmap(MAP_PRIVATE | MAP_ANONYMOUS), or let the administrator set "
            "copied_memory = \"all\" in urnicd's configuration\n",
            static_cast<unsigned long long>(request.addr), static_cast<unsigned long long>(request.length));
    }
}

}  // namespace

struct ibv_mr* finish_mr(Mr* mr, int error, struct ibv_pd* pd, const abi::RegMrReply& reply,
                         std::size_t length, int type) {
    if (error != 0) {
        free_object(mr);
        errno = error;
        return nullptr;
    }
    mr->base.mr.context = pd->context;
    mr->base.mr.pd = pd;
    mr->base.mr.length = length;
    mr->base.mr.handle = reply.handle;
    mr->base.mr.lkey = reply.lkey;
    mr->base.mr.rkey = reply.rkey;
    mr->base.type = type;
    return &mr->base.mr;
}

struct ibv_mr* reg_mr(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
    const auto wanted = static_cast<std::uint32_t>(access);
    if (!is_offered(wanted)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    auto* mr = make_object<Mr>();
    if (mr == nullptr) {
        return nullptr;
    }
    abi::RegMrRequest request{};
    request.pd = pd->handle;
    request.access = wanted & kOffered;
    request.addr = reinterpret_cast<std::uintptr_t>(addr);
    request.length = length;
    request.iova = first_address(wanted, iova);
    abi::RegMrReply reply{};
    Session& session = *context_of(pd->context)->session;
    int error = prepare_memory(session, request, mr->registration);
    if (error == 0) {
        request.flags = mr->registration.converted ? std::uint32_t{abi::kRegMrConverted} : 0;
        error = session.call(abi::Op::kRegMr, request, reply);
    }
    if (error != 0) {
        explain_refusal(error, request);
        memory::release(mr->registration);
        free_object(mr);
        errno = error;
        return nullptr;
    }
    mr->base.mr.handle = reply.handle;
    mr->base.mr.lkey = reply.lkey;
    mr->base.mr.rkey = reply.rkey;
    mr->base.access = access;
    mr->iova = iova;
    return &mr->base.mr;
}

int rereg_mr(PrivateMr* base, int flags, struct ibv_pd* pd, void* addr, std::size_t length, int access) {
    auto* mr = reinterpret_cast<Mr*>(base);
    const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    const auto wanted =
        static_cast<std::uint32_t>((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : base->access);
    const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
    if (!is_offered(wanted) || (changes_pd && pd == nullptr)) {
        errno = changes_pd && pd == nullptr ? EINVAL : EOPNOTSUPP;
        return errno;
    }
    abi::ReregMrRequest request{};
    request.mr = base->mr.handle;
    // The memory is always looked at again: pages that were registered for reading alone are not writable
    // yet.
    request.changes = abi::kReregMrTranslation | abi::kReregMrAccess;
    if (changes_pd) {
        request.changes |= abi::kReregMrPd;
    }
    request.pd = changes_pd ? pd->handle : 0;
    request.access = wanted & kOffered;
    const std::uint64_t iova = moves ? reinterpret_cast<std::uintptr_t>(addr) : mr->iova;
    abi::RegMrRequest memory{};
    memory.access = request.access;
    memory.addr = reinterpret_cast<std::uintptr_t>(moves ? addr : base->mr.addr);
    memory.length = moves ? length : base->mr.length;
    request.addr = memory.addr;
    request.length = memory.length;
    request.iova = first_address(wanted, iova);
    Session& session = *context_of(base->mr.context)->session;
    memory::Registration registration;
    int error = prepare_memory(session, memory, registration);
    if (error == 0) {
        request.memory_flags = registration.converted ? std::uint32_t{abi::kRegMrConverted} : 0;
        abi::EmptyReply reply{};
        error = session.call(abi::Op::kReregMr, request, reply);
        if (error != 0) {
            memory.flags = request.memory_flags;
            explain_refusal(error, memory);
        }
    }
    memory::release(error == 0 ? mr->registration : registration);
    if (error != 0) {
        errno = error;
        return error;
    }
    mr->registration = registration;
    mr->iova = iova;
    base->access = static_cast<int>(wanted);
    return 0;
}

struct ibv_mr* alloc_null_mr(struct ibv_pd* pd) {
    auto* mr = make_object<Mr>();
    if (mr == nullptr) {
        return nullptr;
    }
    abi::HandleRequest request{};
    request.handle = pd->handle;
    abi::RegMrReply reply{};
    const int error = context_of(pd->context)->session->call(abi::Op::kAllocNullMr, request, reply);
    reply.rkey = 0;  // for the requester's own use
    return finish_mr(mr, error, pd, reply, ~std::size_t{0}, kMrNull);
}

int dereg_mr(PrivateMr* base) {
    auto* mr = reinterpret_cast<Mr*>(base);
    if (base->type == kMrImported) {
        return EOPNOTSUPP;  // it is another's, who alone can end it
    }
    Session* session = context_of(base->mr.context)->session;
    const int error = session->call_handle(abi::Op::kDeregMr, base->mr.handle);
    if (session->is_refusal(error)) {
        return error;
    }
    memory::release(mr->registration);
    free_object(mr);
    return 0;
}

}  // namespace urnic::provider
