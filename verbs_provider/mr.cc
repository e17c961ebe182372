// Memory regions.
#include <errno.h>

#include "verbs_provider/verbs.h"

namespace urnic::provider {

namespace {

constexpr std::uint32_t kOffered = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                   kAccessRemoteAtomic | kAccessHugetlb | kAccessRelaxedOrdering;

constexpr std::uint32_t kWriting = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic;

/// Moves the range into the memory file if that can be done; errno if it cannot be registered at all. An
/// empty range is a region that no access fits into.
int prepare_memory(Session& session, const abi::RegMrRequest& request, memory::Registration& registration) {
    if (request.length == 0 || !session.attach_memory()) {
        return 0;
    }
    registration = memory::convert(request.addr, request.length, (request.access & kWriting) != 0);
    return registration.error;
}

}  // namespace

struct ibv_mr* reg_mr(struct ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
    // Optional flags (IBV_ACCESS_OPTIONAL_RANGE) may be ignored; any other that is not offered may not.
    const auto wanted = static_cast<std::uint32_t>(access);
    if ((wanted & ~kOffered & ~static_cast<std::uint32_t>(IBV_ACCESS_OPTIONAL_RANGE)) != 0) {
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
    request.iova = iova;
    abi::RegMrReply reply{};
    Session& session = *context_of(pd->context)->session;
    int error = prepare_memory(session, request, mr->registration);
    if (error == 0) {
        request.flags = mr->registration.converted ? std::uint32_t{abi::kRegMrConverted} : 0;
        error = session.call(abi::Op::kRegMr, request, reply);
    }
    if (error != 0) {
        memory::release(mr->registration);
        free_object(mr);
        errno = error;
        return nullptr;
    }
    mr->base.mr.handle = reply.handle;
    mr->base.mr.lkey = reply.lkey;
    mr->base.mr.rkey = reply.rkey;
    mr->base.access = access;
    return &mr->base.mr;
}

int dereg_mr(PrivateMr* base) {
    auto* mr = reinterpret_cast<Mr*>(base);
    Session* session = context_of(base->mr.context)->session;
    const int error = session->call_handle(abi::Op::kDeregMr, base->mr.handle);
    if (session->refused(error)) {
        return error;
    }
    memory::release(mr->registration);
    free_object(mr);
    return 0;
}

}  // namespace urnic::provider
