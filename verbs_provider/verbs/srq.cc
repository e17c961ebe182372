// Shared receive queues: creation, limit and resize, queries, destruction, posting.
#include <errno.h>
#include <sys/mman.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/datapath/post_ring.h"

namespace urnic::provider {

namespace {

struct SrqInit {
    struct ibv_pd* pd = nullptr;
    struct ibv_srq_attr* attr = nullptr;
    void* srq_context = nullptr;
    Xrcd* xrcd = nullptr;  // XRC, with `cq`
    Cq* cq = nullptr;
};

/// Maps the memory a reply names; the ring's indexes continue where they are.
int attach_ring(Srq& srq, const abi::SrqReply& reply, int fd) {
    const bool fits = reply.entries != 0 && (reply.entries & (reply.entries - 1)) == 0 &&
                      reply.entries <= abi::kMaxQueueEntries && reply.stride >= sizeof(abi::RecvWqe) &&
                      reply.stride % alignof(abi::RecvWqe) == 0 && reply.max_sge <= abi::kMaxSge &&
                      abi::srq_bytes(reply.entries, reply.stride) <= reply.memory_bytes &&
                      abi::recv_stride(reply.max_sge) <= reply.stride;
    if (!fits) {
        return EPROTO;
    }
    auto* memory = static_cast<std::byte*>(map_shared(fd, reply.memory_bytes, reply.memory_offset, true));
    if (memory == nullptr) {
        return errno;
    }
    if (srq.memory != nullptr) {
        munmap(srq.memory, srq.memory_bytes);
    }
    srq.memory = memory;
    srq.memory_bytes = reply.memory_bytes;
    srq.ring.slots = memory + abi::kSrqHeaderBytes;
    srq.ring.entries = reply.entries;
    srq.ring.stride = reply.stride;
    srq.ring.max_sge = reply.max_sge;
    return 0;
}

void fill_public(Srq& srq, const SrqInit& init, std::uint32_t handle) {
    srq.srq.context = init.pd->context;
    srq.srq.srq_context = init.srq_context;
    srq.srq.pd = init.pd;
    srq.srq.handle = handle;
    pthread_mutex_init(&srq.srq.mutex, nullptr);
    pthread_cond_init(&srq.srq.cond, nullptr);
}

void free_srq(Srq* srq) {
    if (srq->memory != nullptr) {
        munmap(srq->memory, srq->memory_bytes);
    }
    free_object_in(srq);
}

Srq* make_srq(const SrqInit& init) {
    auto* srq = make_object_in<Srq>(pd_of(init.pd));
    if (srq == nullptr) {
        return nullptr;
    }
    srq->context = context_of(init.pd->context);
    Session& session = *srq->context->session;
    abi::CreateSrqRequest request{};
    request.pd = init.pd->handle;
    request.max_wr = init.attr->max_wr;
    request.max_sge = init.attr->max_sge;
    request.xrcd = init.xrcd != nullptr ? init.xrcd->handle : 0;
    request.cq = init.cq != nullptr ? init.cq->cq.handle : 0;
    request.user_handle = reinterpret_cast<std::uintptr_t>(srq);
    abi::SrqReply reply{};
    ReplyFds fds;
    int error = session.call(abi::Op::kCreateSrq, request, reply, &fds);
    if (error == 0) {
        error = attach_ring(*srq, reply, fds.peek(0));
        if (error != 0) {
            session.give_back(abi::Op::kDestroySrq, reply.handle);
        }
    }
    if (error != 0) {
        free_srq(srq);
        errno = error;
        return nullptr;
    }
    srq->number = reply.srq_number;
    fill_public(*srq, init, reply.handle);
    srq->xrc_cq = init.cq;
    if (init.cq != nullptr) {
        init.cq->users.fetch_add(1);
    }
    srq->parent_domain = pd_of(init.pd);
    ref_parent_domain(srq->parent_domain);
    if (srq->parent_domain->td != nullptr) {
        srq->lock.disable();
    }
    init.attr->max_wr = reply.entries;
    init.attr->max_sge = reply.max_sge;
    Guard guard(srq->context->objects_mutex);
    srq->context->event_targets.insert(srq->event_target, EventTarget::Kind::kSrq, srq);
    return srq;
}

int modify(Srq& srq, const struct ibv_srq_attr& attr, int mask) {
    abi::ModifySrqRequest request{};
    request.srq = srq.srq.handle;
    request.mask = static_cast<std::uint32_t>(mask);
    request.max_wr = attr.max_wr;
    request.limit = attr.srq_limit;
    abi::SrqReply reply{};
    ReplyFds fds;
    const int error = srq.context->session->call(abi::Op::kModifySrq, request, reply, &fds);
    if (error != 0 || (mask & IBV_SRQ_MAX_WR) == 0) {
        return error;
    }
    return attach_ring(srq, reply, fds.peek(0));
}

}  // namespace

struct ibv_srq* create_srq(struct ibv_pd* pd, struct ibv_srq_init_attr* attr) {
    SrqInit init;
    init.pd = pd;
    init.attr = &attr->attr;
    init.srq_context = attr->srq_context;
    Srq* srq = make_srq(init);
    return srq != nullptr ? &srq->srq : nullptr;
}

struct ibv_srq* create_srq_ex(struct ibv_context*, struct ibv_srq_init_attr_ex* attr) {
    constexpr std::uint32_t kKnown =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    const auto type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type : IBV_SRQT_BASIC;
    if ((attr->comp_mask & ~kKnown) != 0 || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    SrqInit init;
    init.pd = (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 ? attr->pd : nullptr;
    init.attr = &attr->attr;
    init.srq_context = attr->srq_context;
    if (type == IBV_SRQT_XRC) {
        init.xrcd = (attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) != 0 ? xrcd_of(attr->xrcd) : nullptr;
        init.cq = (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) != 0 ? cq_of(attr->cq) : nullptr;
    }
    if (init.pd == nullptr || (type == IBV_SRQT_XRC && (init.xrcd == nullptr || init.cq == nullptr))) {
        errno = EINVAL;
        return nullptr;
    }
    Srq* srq = make_srq(init);
    return srq != nullptr ? &srq->srq : nullptr;
}

int modify_srq(struct ibv_srq* ibv_srq, struct ibv_srq_attr* attr, int mask) {
    Srq& srq = *srq_of(ibv_srq);
    if ((mask & IBV_SRQ_MAX_WR) == 0) {
        return modify(srq, *attr, mask);
    }
    // The daemon copies what is posted: nothing may be posted meanwhile.
    Guard guard(srq.lock);
    return modify(srq, *attr, mask);
}

int query_srq(struct ibv_srq* ibv_srq, struct ibv_srq_attr* attr) {
    const Srq& srq = *srq_of(ibv_srq);
    abi::HandleRequest request{};
    request.handle = ibv_srq->handle;
    abi::SrqReply reply{};
    const int error = srq.context->session->call(abi::Op::kQuerySrq, request, reply);
    if (error == 0) {
        attr->max_wr = reply.entries;
        attr->max_sge = reply.max_sge;
        attr->srq_limit = reply.limit;
    }
    return error;
}

int get_srq_num(struct ibv_srq* srq, std::uint32_t* number) {
    *number = srq_of(srq)->number;
    return 0;
}

int destroy_srq(struct ibv_srq* ibv_srq) {
    Srq* srq = srq_of(ibv_srq);
    Session& session = *srq->context->session;
    if (srq->users.load() != 0) {
        return EBUSY;
    }
    abi::HandleRequest request{};
    request.handle = ibv_srq->handle;
    abi::DestroyReply reply{};
    const int error = session.call(abi::Op::kDestroySrq, request, reply);
    const SessionState state = session.state();
    if (session.is_refusal(error)) {
        return error;
    }
    if (srq->xrc_cq != nullptr) {
        if (state != SessionState::kForkedChild) {
            const CqGuard guard(*srq->xrc_cq);
            clean_cq_of_srq(*srq->xrc_cq, srq->number);
        }
        srq->xrc_cq->users.fetch_sub(1);
    }
    if (state != SessionState::kForkedChild) {
        {
            Guard guard(srq->context->objects_mutex);
            srq->context->event_targets.remove(srq->event_target);
        }
        drain_srq_events(*srq, error != 0 || reply.async_events != 0);
    }
    pthread_mutex_destroy(&ibv_srq->mutex);
    pthread_cond_destroy(&ibv_srq->cond);
    Pd* parent_domain = srq->parent_domain;
    free_srq(srq);
    unref_parent_domain(parent_domain);
    return 0;
}

int post_srq_recv(struct ibv_srq* ibv_srq, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
    Srq& srq = *srq_of(ibv_srq);
    int error = 0;
    if (srq.context->session->state_relaxed() == SessionState::kForkedChild) [[unlikely]] {
        error = EIO;
    } else {
        Guard guard(srq.lock);
        // QPs take receives in order: all before this index have been copied.
        const auto& header = *reinterpret_cast<const abi::SrqHeader*>(srq.memory);
        srq.ring.done.store(header.consumed.load(std::memory_order_acquire), std::memory_order_relaxed);
        std::uint32_t posted = 0;
        error =
            post_list(srq.ring, wr, posted, [&srq](std::uint32_t index, const struct ibv_recv_wr& request) {
                return write_recv(srq.ring, index, request);
            });
    }
    return error == 0 ? 0 : refuse_post(error, wr, bad_wr);
}

}  // namespace urnic::provider
