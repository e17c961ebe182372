// Completion queues: creation, resizing, notification, destruction.
#include <errno.h>
#include <sys/mman.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/interpose/librdmacm_hooks.h"

namespace urnic::provider {

namespace {

constexpr std::uint64_t kTimestamps =
    std::uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kReadable = std::uint64_t{IBV_WC_STANDARD_FLAGS} | kTimestamps;
constexpr std::uint32_t kAttrFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

struct CqInit {
    std::uint32_t entries = 0;
    struct ibv_comp_channel* channel = nullptr;
    std::uint32_t comp_vector = 0;
    std::uint64_t wc_flags = 0;
    std::uint32_t flags = 0;  // abi::CqFlags
    bool lockless = false;
    Pd* parent_domain = nullptr;
};

/// Maps the memory a CreateCq or ResizeCq reply names.
int map_rings(const Session& session, std::uint32_t entries, std::uint64_t offset, int fd, CqRings& rings) {
    if (entries == 0 || (entries & (entries - 1)) != 0 || entries > abi::kMaxCqEntries) {
        return EPROTO;
    }
    rings.entries = entries;
    rings.bytes = abi::cq_bytes(session.num_workers(), entries);
    rings.memory = static_cast<std::byte*>(map_shared(fd, rings.bytes, offset, true));
    return rings.memory != nullptr ? 0 : errno;
}

Cq* make_cq(Context& context, const CqInit& init) {
    Session* session = context.session;
    Channel* channel = nullptr;
    if (init.channel != nullptr) {
        channel = find_channel(context, init.channel->fd);
        if (channel == nullptr) {
            errno = EINVAL;
            return nullptr;
        }
    }
    auto* cq = make_object_in<Cq>(init.parent_domain);
    if (cq == nullptr) {
        return nullptr;
    }
    abi::CreateCqRequest request{};
    request.context = context.handle;
    request.entries = init.entries;
    request.channel = channel != nullptr ? channel->handle : 0;
    request.comp_vector = init.comp_vector;
    request.user_handle = reinterpret_cast<std::uintptr_t>(cq);
    request.flags = init.flags;
    abi::CreateCqReply reply{};
    ReplyFds fds;
    int error = session->call(abi::Op::kCreateCq, request, reply, &fds);
    if (error == 0) {
        error = map_rings(*session, reply.entries, reply.memory_offset, fds.peek(0), cq->rings);
        if (error != 0) {
            session->give_back(abi::Op::kDestroyCq, reply.handle);
        }
    }
    if (error != 0) {
        free_object_in(cq);
        errno = error;
        return nullptr;
    }
    cq->context = &context;
    cq->num_workers = session->num_workers();
    cq->channel = channel;
    cq->is_librdmacms = is_librdmacm_creating_cq();
    cq->cq.handle = reply.handle;
    cq->cq.context = &context.verbs.context;
    cq->cq.cqe = static_cast<int>(reply.entries);
    if (init.lockless) {
        cq->lock.disable();
    }
    cq->parent_domain = init.parent_domain;
    ref_parent_domain(cq->parent_domain);
    set_poll_functions(*cq, init.wc_flags);
    Guard guard(context.objects_mutex);
    link(context.cqs, cq);
    context.event_targets.insert(cq->event_target, EventTarget::Kind::kCq, cq);
    return cq;
}

/// Completions older than the rings in use, copied, so that the daemon may reuse the memory they lie in.
/// Returns false if there is no memory; nothing has changed then.
bool copy_leftover(Cq& cq) {
    if (!cq.has_leftover) {
        return true;
    }
    std::size_t count = cq.backlog_count - cq.backlog_next;
    const std::size_t most = count + std::size_t{cq.old_rings.entries} * cq.num_workers;
    auto* copy = static_cast<abi::Cqe*>(std::aligned_alloc(alignof(abi::Cqe), (most + 1) * sizeof(abi::Cqe)));
    if (copy == nullptr) {
        return false;
    }
    if (count != 0) {
        std::memcpy(static_cast<void*>(copy), cq.backlog + cq.backlog_next, count * sizeof(abi::Cqe));
    }
    if (cq.old_rings.memory != nullptr) {
        for (std::uint32_t worker = 0; worker < cq.num_workers; ++worker) {
            while (abi::Cqe* cqe = cq.old_rings.front_of_replaced(worker)) {
                std::memcpy(static_cast<void*>(copy + count++), cqe, sizeof *cqe);
                ++cq.old_rings.taken[worker];
            }
        }
        cq.old_rings.unmap();
    }
    std::free(cq.backlog);
    cq.backlog = copy;
    cq.backlog_next = 0;
    cq.backlog_count = static_cast<std::uint32_t>(count);
    return true;
}

/// Takes the completions that `goes` picks out of the rings.
template <class Goes>
void clean_rings(CqRings& rings, std::uint32_t num_workers, Goes goes) {
    if (rings.memory == nullptr) {
        return;
    }
    for (std::uint32_t worker = 0; worker < num_workers; ++worker) {
        const std::uint32_t first = rings.taken[worker];
        for (std::uint32_t index = first; index - first < rings.entries; ++index) {
            abi::Cqe& cqe = rings.entry(worker, index);
            if (cqe.seq.load(std::memory_order_acquire) != index + 1) {
                break;
            }
            if (goes(cqe)) {
                cqe.qp_num = 0;  // no QP of an application has number 0: poll skips it
            }
        }
    }
}

template <class Goes>
void clean(Cq& cq, Goes goes) {
    for (std::uint32_t i = cq.backlog_next; i < cq.backlog_count; ++i) {
        if (goes(cq.backlog[i])) {
            cq.backlog[i].qp_num = 0;
        }
    }
    clean_rings(cq.old_rings, cq.num_workers, goes);
    clean_rings(cq.rings, cq.num_workers, goes);
}

}  // namespace

void CqRings::unmap() {
    if (memory != nullptr) {
        munmap(memory, bytes);
    }
    *this = {};
}

void clean_cq(Cq& cq, std::uint32_t qp_num) {
    clean(cq, [qp_num](const abi::Cqe& cqe) { return cqe.qp_num == qp_num; });
}

void clean_cq_of_srq(Cq& cq, std::uint32_t srq_number) {
    clean(cq, [srq_number](const abi::Cqe& cqe) { return cqe.srq_number == srq_number; });
}

struct ibv_cq* create_cq(struct ibv_context* context, int entries, struct ibv_comp_channel* channel,
                         int comp_vector) {
    if (entries <= 0 || comp_vector < 0 || comp_vector >= context->num_comp_vectors) {
        errno = EINVAL;
        return nullptr;
    }
    CqInit init;
    init.entries = static_cast<std::uint32_t>(entries);
    init.channel = channel;
    init.comp_vector = static_cast<std::uint32_t>(comp_vector);
    Cq* cq = make_cq(*context_of(context), init);
    return cq != nullptr ? &cq->cq : nullptr;
}

struct ibv_cq_ex* create_cq_ex(struct ibv_context* context, struct ibv_cq_init_attr_ex* attr) {
    constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const std::uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    if ((attr->wc_flags & ~kReadable) != 0 || (attr->comp_mask & ~kKnown) != 0 ||
        (flags & ~kAttrFlags) != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if (attr->cqe == 0 || attr->comp_vector >= static_cast<std::uint32_t>(context->num_comp_vectors)) {
        errno = EINVAL;
        return nullptr;
    }
    CqInit init;
    init.entries = attr->cqe;
    init.channel = attr->channel;
    init.comp_vector = attr->comp_vector;
    init.wc_flags = attr->wc_flags;
    init.lockless = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0) {
        init.flags |= abi::kCqIgnoreOverrun;
    }
    if ((attr->wc_flags & kTimestamps) != 0) {
        init.flags |= abi::kCqTimestamps;
    }
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
        if (attr->parent_domain == nullptr || pd_of(attr->parent_domain)->parent_of == nullptr) {
            errno = EINVAL;
            return nullptr;
        }
        init.parent_domain = pd_of(attr->parent_domain);
        init.lockless |= init.parent_domain->td != nullptr;
    }
    Cq* cq = make_cq(*context_of(context), init);
    return cq != nullptr ? &cq->cq_ex : nullptr;
}

int resize_cq(struct ibv_cq* ibv_cq, int entries) {
    Cq& cq = *cq_of(ibv_cq);
    Session* session = cq.context->session;
    if (entries <= 0 || static_cast<std::uint32_t>(entries) > cq.context->caps.max_cqe) {
        return EINVAL;
    }
    abi::ResizeCqRequest request{};
    request.cq = ibv_cq->handle;
    request.entries = static_cast<std::uint32_t>(entries);
    abi::CreateCqReply reply{};
    ReplyFds fds;
    if (session->state() != SessionState::kLive) {
        return EIO;
    }
    Guard guard(cq.lock);
    if (!copy_leftover(cq)) {
        return ENOMEM;
    }
    request.unpolled = cq.backlog_count - cq.backlog_next;
    int error = session->call(abi::Op::kResizeCq, request, reply, &fds);
    if (error != 0) {
        return error;
    }
    CqRings rings;
    error = map_rings(*session, reply.entries, reply.memory_offset, fds.peek(0), rings);
    if (error != 0) {
        return error;
    }
    Guard objects(cq.context->objects_mutex);
    cq.old_rings = cq.rings;
    for (std::uint32_t worker = 0; worker < cq.num_workers; ++worker) {
        cq.old_rings.end[worker] = cq.old_rings.taken[worker] + cq.old_rings.entries;
    }
    cq.rings = rings;
    cq.has_leftover = true;
    cq.next_worker = 0;
    ibv_cq->cqe = static_cast<int>(reply.entries);
    return 0;
}

int modify_cq(struct ibv_cq* ibv_cq, struct ibv_modify_cq_attr* attr) {
    constexpr std::uint32_t kKnown = IBV_CQ_ATTR_MODERATE;
    if (attr->attr_mask == 0) {
        return EINVAL;
    }
    if ((attr->attr_mask & ~kKnown) != 0) {
        return EOPNOTSUPP;
    }
    Cq& cq = *cq_of(ibv_cq);
    abi::ModifyCqRequest request{};
    request.cq = ibv_cq->handle;
    request.count = attr->moderate.cq_count;
    request.period_us = attr->moderate.cq_period;
    abi::EmptyReply reply{};
    const int error = cq.context->session->call(abi::Op::kModifyCq, request, reply);
    if (error == 0) {
        const CqGuard guard(cq);
        cq.moderated = request.count != 0 || request.period_us != 0;
        cq.was_armed_nonempty = true;  // as far as anybody knows
    }
    return error;
}

int req_notify_cq(struct ibv_cq* ibv_cq, int solicited_only) {
    Cq& cq = *cq_of(ibv_cq);
    const Session* session = cq.context->session;
    if (session->state_relaxed() == SessionState::kForkedChild) {
        return EIO;
    }
    const std::uint32_t wanted = solicited_only != 0 ? abi::kCqArmedSolicited : abi::kCqArmedAny;
    {
        const CqGuard guard(cq);
        std::atomic<std::uint32_t>& arm = cq.rings.header().arm;
        std::uint32_t armed = arm.load();
        while (armed < wanted && !arm.compare_exchange_weak(armed, wanted)) {
        }
        // Asking for what is asked for already must still be ordered before the application's next poll.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (cq.moderated) {
            cq.was_armed_nonempty =
                has_completion(cq);  // what comes from here on is seen armed by the daemon
        }
    }
    if (session->state() == SessionState::kDead) {
        notify_flush(cq);
    }
    return 0;
}

int destroy_cq(struct ibv_cq* ibv_cq) {
    Cq* cq = cq_of(ibv_cq);
    Context& context = *cq->context;
    if (cq->users.load() != 0) {
        return EBUSY;
    }
    abi::HandleRequest request{};
    request.handle = ibv_cq->handle;
    abi::DestroyReply reply{};
    const int error = context.session->call(abi::Op::kDestroyCq, request, reply);
    const SessionState state = context.session->state();
    if (context.session->is_refusal(error)) {
        return error;
    }
    {
        Guard guard(context.objects_mutex);
        unlink_from(context.cqs, cq);
        context.event_targets.remove(cq->event_target);
    }
    if (state != SessionState::kForkedChild) {
        drain_cq_events(*cq, error != 0 || reply.async_events != 0);
    }
    cq->rings.unmap();
    cq->old_rings.unmap();
    std::free(cq->backlog);
    pthread_mutex_destroy(&ibv_cq->mutex);
    pthread_cond_destroy(&ibv_cq->cond);
    Pd* parent_domain = cq->parent_domain;
    free_object_in(cq);
    unref_parent_domain(parent_domain);
    return 0;
}

}  // namespace urnic::provider
