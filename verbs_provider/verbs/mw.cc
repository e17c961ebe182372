// Memory windows. Binding them is a work request (post.cc, post_ex.cc).
#include <errno.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

struct ibv_mw* alloc_mw(struct ibv_pd* pd, enum ibv_mw_type type) {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
        errno = EINVAL;
        return nullptr;
    }
    auto* object = make_object<Mw>();
    if (object == nullptr) {
        return nullptr;
    }
    abi::AllocMwRequest request{};
    request.pd = pd->handle;
    request.type = static_cast<std::uint32_t>(type);
    abi::AllocMwReply reply{};
    const int error = context_of(pd->context)->session->call(abi::Op::kAllocMw, request, reply);
    if (error != 0) {
        free_object(object);
        errno = error;
        return nullptr;
    }
    struct ibv_mw* mw = &object->mw;
    mw->context = pd->context;
    mw->pd = pd;
    mw->rkey = reply.rkey;
    mw->handle = reply.handle;
    mw->type = type;
    object->index_bits = reply.rkey & ~kConsumerKeyMask;
    return mw;
}

int dealloc_mw(struct ibv_mw* mw) {
    Session* session = context_of(mw->context)->session;
    const int error = session->call_handle(abi::Op::kDeallocMw, mw->handle);
    if (session->is_refusal(error)) {
        return error;
    }
    free_object(mw_of(mw));
    return 0;
}

}  // namespace urnic::provider
