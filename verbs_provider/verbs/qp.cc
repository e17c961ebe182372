// Queue pairs: creation, state changes, queries, destruction.
#include <errno.h>
#include <sys/mman.h>

#include "verbs_provider/core/deferred_modifies.h"
#include "verbs_provider/core/verbs.h"
#include "verbs_provider/datapath/send_opcodes.h"

namespace urnic::provider {

namespace {

struct QpInit {
    struct ibv_pd* pd = nullptr;
    Xrcd* xrcd = nullptr;  // XRC target: instead of the PD
    std::uint64_t send_ops = 0;
    bool extended = false;
    std::uint32_t create_flags = 0;
};

int validate(const struct ibv_qp_init_attr_ex& attr, const QpInit& init) {
    switch (attr.qp_type) {
        case IBV_QPT_RC:
        case IBV_QPT_UC:
        case IBV_QPT_UD:
            return init.pd != nullptr && attr.send_cq != nullptr && attr.recv_cq != nullptr ? 0 : EINVAL;
        case IBV_QPT_XRC_SEND:
            return init.pd != nullptr && attr.send_cq != nullptr && attr.srq == nullptr ? 0 : EINVAL;
        case IBV_QPT_XRC_RECV:
            return init.xrcd != nullptr && attr.srq == nullptr ? 0 : EINVAL;
        default:
            return EOPNOTSUPP;
    }
}

/// Clears the attributes that an XRC initiator or target, or a QP with an SRQ, ignores, as the kernel does.
void clear_ignored_attrs(struct ibv_qp_init_attr_ex& attr, QpInit& init) {
    if (attr.qp_type == IBV_QPT_XRC_SEND || attr.qp_type == IBV_QPT_XRC_RECV) {
        attr.recv_cq = nullptr;
        attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
    if (attr.qp_type == IBV_QPT_XRC_RECV) {
        init.pd = nullptr;
        attr.send_cq = nullptr;
        attr.cap = {};
    } else {
        init.xrcd = nullptr;
    }
    if (attr.srq != nullptr) {
        attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
    }
}

int request_qp(Session& session, const struct ibv_qp_init_attr_ex& attr, const QpInit& init, const Qp& qp,
               abi::CreateQpReply& reply, ReplyFds& fds) {
    abi::CreateQpRequest request{};
    request.pd = init.pd != nullptr ? init.pd->handle : 0;
    request.send_cq = attr.send_cq != nullptr ? attr.send_cq->handle : 0;
    request.recv_cq = attr.recv_cq != nullptr ? attr.recv_cq->handle : 0;
    request.srq = attr.srq != nullptr ? attr.srq->handle : 0;
    request.xrcd = init.xrcd != nullptr ? init.xrcd->handle : 0;
    request.type = static_cast<std::uint8_t>(attr.qp_type);
    request.sq_sig_all = attr.sq_sig_all != 0 ? 1 : 0;
    request.create_flags = static_cast<std::uint16_t>(init.create_flags);
    request.max_send_wr = attr.cap.max_send_wr;
    request.max_recv_wr = attr.cap.max_recv_wr;
    request.max_send_sge = attr.cap.max_send_sge;
    request.max_recv_sge = attr.cap.max_recv_sge;
    request.max_inline = attr.cap.max_inline_data;
    request.user_handle = reinterpret_cast<std::uintptr_t>(&qp);
    return session.call(abi::Op::kCreateQp, request, reply, &fds);
}

bool is_power_of_two_or_zero(std::uint32_t n) { return (n & (n - 1)) == 0; }

/// Returns whether two rings of these slots lie within the QP's part, one behind the other, and each slot has
/// room for the longest request that will be written there.
bool has_possible_rings(const abi::CreateQpReply& reply) {
    const bool has_possible_counts =
        is_power_of_two_or_zero(reply.sq_entries) && is_power_of_two_or_zero(reply.rq_entries) &&
        reply.sq_entries <= abi::kMaxQueueEntries && reply.rq_entries <= abi::kMaxQueueEntries &&
        reply.max_send_sge <= abi::kMaxSge && reply.max_recv_sge <= abi::kMaxSge &&
        reply.max_inline <= abi::kMaxInlineBytes;
    if (!has_possible_counts) {
        return false;
    }
    const bool has_room_in_slots =
        reply.sq_stride >= abi::send_stride(reply.max_send_sge, reply.max_inline) &&
        reply.sq_stride % alignof(abi::SendWqe) == 0 &&
        reply.rq_stride >= abi::recv_stride(reply.max_recv_sge) &&
        reply.rq_stride % alignof(abi::RecvWqe) == 0 && reply.rq_offset % alignof(abi::RecvWqe) == 0;
    const std::uint64_t sq_bytes = std::uint64_t{reply.sq_entries} * reply.sq_stride;
    const std::uint64_t rq_bytes = std::uint64_t{reply.rq_entries} * reply.rq_stride;
    return has_room_in_slots && sq_bytes <= reply.rq_offset && reply.rq_offset <= reply.memory_bytes &&
           rq_bytes <= reply.memory_bytes - reply.rq_offset;
}

/// The rings and the doorbell as the reply describes them; an XRC target has none.
int attach_rings(Qp& qp, const abi::CreateQpReply& reply, int fd) {
    if (qp.is_target) {
        return 0;
    }
    const Session& session = *qp.session;
    if (!has_possible_rings(reply) || reply.worker >= session.num_workers() ||
        reply.doorbell_slot >= abi::kDoorbellSlots) {
        return EPROTO;
    }
    qp.memory = static_cast<std::byte*>(map_shared(fd, reply.memory_bytes, reply.memory_offset, true));
    if (qp.memory == nullptr) {
        return errno;
    }
    qp.memory_bytes = reply.memory_bytes;
    qp.sq.slots = qp.memory;
    qp.sq.entries = reply.sq_entries;
    qp.sq.stride = reply.sq_stride;
    qp.sq.max_sge = reply.max_send_sge;
    qp.rq.slots = qp.memory + reply.rq_offset;
    qp.rq.entries = reply.rq_entries;
    qp.rq.stride = reply.rq_stride;
    qp.rq.max_sge = reply.max_recv_sge;
    qp.max_inline = reply.max_inline;
    qp.cap = {reply.sq_entries, reply.rq_entries, reply.max_send_sge, reply.max_recv_sge, reply.max_inline};
    abi::WorkerDoorbell& bell = session.doorbell(reply.worker);
    const std::uint32_t word = reply.doorbell_slot / 64;
    qp.bell_word = &bell.words[word];
    qp.bell_bit = std::uint64_t{1} << (reply.doorbell_slot % 64);
    qp.bell_summary = &bell.summary[word / 64];
    qp.bell_summary_bit = std::uint64_t{1} << (word % 64);
    qp.worker_sleeping = &session.daemon().workers[reply.worker].sleeping;
    qp.worker_wake_fd = session.wake_fd(reply.worker);
    return 0;
}

void fill_public(Qp& qp, const struct ibv_qp_init_attr_ex& attr, const QpInit& init,
                 const abi::CreateQpReply& reply) {
    qp.qp.context = &qp.context->verbs.context;
    qp.qp.qp_context = attr.qp_context;
    qp.qp.pd = init.pd;
    qp.qp.send_cq = attr.send_cq;
    qp.qp.recv_cq = attr.recv_cq;
    qp.qp.srq = attr.srq;
    qp.qp.handle = reply.handle;
    qp.qp.qp_num = reply.qp_num;
    qp.qp.state = IBV_QPS_RESET;
    qp.qp.qp_type = attr.qp_type;
    pthread_mutex_init(&qp.qp.mutex, nullptr);
    pthread_cond_init(&qp.qp.cond, nullptr);
}

/// 0 or errno.
int publish(Context& context, Qp& qp) {
    Guard guard(context.objects_mutex);
    // Completions of an XRC target's receives belong to its SRQs: polling does not look for the QP.
    const int error = qp.is_target ? 0 : context.qp_table.insert(qp.qp.qp_num, qp);
    if (error == 0) {
        link(context.qps, &qp);
        context.event_targets.insert(qp.event_target, EventTarget::Kind::kQp, &qp);
    }
    return error;
}

/// Removes the QP's completions from its CQs. Calls then() while no thread can poll them.
template <class Then>
void clean_completions(Qp& qp, Then then) {
    if (qp.is_target) {
        then();
        return;
    }
    Cq* send_cq = cq_of(qp.qp.send_cq);
    Cq* recv_cq = qp.qp.recv_cq != nullptr ? cq_of(qp.qp.recv_cq) : send_cq;
    // Two QPs with their CQs crossed must not wait for each other: always the lower address first.
    Cq& first = send_cq < recv_cq ? *send_cq : *recv_cq;
    Cq& second = send_cq < recv_cq ? *recv_cq : *send_cq;
    const CqGuard guard(first);
    clean_cq(first, qp.qp.qp_num);
    if (&second == &first) {
        then();
        return;
    }
    const CqGuard second_guard(second);
    clean_cq(second, qp.qp.qp_num);
    then();
}

/// Removes the QP from the table that polling reads, and from the list that the service thread walks.
void unpublish(Qp& qp) {
    clean_completions(qp, [&qp] {
        Guard objects(qp.context->objects_mutex);
        if (!qp.is_target) {
            qp.context->qp_table.remove(qp.qp.qp_num);
        }
        unlink_from(qp.context->qps, &qp);
        qp.context->event_targets.remove(qp.event_target);
    });
}

/// After a change to RESET: the daemon has emptied the rings.
void reset_rings(Qp& qp) {
    clean_completions(qp, [&qp] {
        Guard sq(qp.sq_lock);
        Guard rq(qp.rq_lock);
        for (WorkRing* ring : {&qp.sq, &qp.rq}) {
            ring->head.store(0, std::memory_order_release);
            ring->done.store(0, std::memory_order_release);
        }
        qp.in_error.store(0);
    });
}

void free_qp(Qp* qp) {
    if (qp->memory != nullptr) {
        munmap(qp->memory, qp->memory_bytes);
    }
    std::free(qp->build_binds);
    free_object_in(qp);
}

/// Calls count(users) for the user counts of the CQs and the SRQ that the QP uses.
template <class Count>
void for_each_user_count(const Qp& qp, Count count) {
    for (struct ibv_cq* cq : {qp.qp.send_cq, qp.qp.recv_cq}) {
        if (cq != nullptr) {
            count(cq_of(cq)->users);
        }
    }
    if (qp.qp.srq != nullptr) {
        count(srq_of(qp.qp.srq)->users);
    }
}

Qp* make_qp(Context& context, struct ibv_qp_init_attr_ex attr, QpInit init) {
    errno = validate(attr, init);
    if (errno != 0) {
        return nullptr;
    }
    clear_ignored_attrs(attr, init);
    auto* qp = make_object_in<Qp>(init.pd != nullptr ? pd_of(init.pd) : nullptr);
    if (qp == nullptr) {
        return nullptr;
    }
    std::memset(qp->room, 0, sizeof qp->room);
    qp->context = &context;
    qp->session = context.session;
    qp->is_target = attr.qp_type == IBV_QPT_XRC_RECV;
    const auto type = static_cast<QpType>(attr.qp_type);
    qp->send_opcodes = send_opcodes_of(type);
    abi::CreateQpReply reply{};
    ReplyFds fds;
    int error = init.extended ? set_post_functions(*qp, type, init.send_ops) : 0;
    if (error == 0) {
        error = request_qp(*context.session, attr, init, *qp, reply, fds);
        if (error == 0) {
            error = attach_rings(*qp, reply, fds.peek(0));
            fill_public(*qp, attr, init, reply);
            if (error == 0) {
                error = publish(context, *qp);
            }
            if (error != 0) {
                context.session->give_back(abi::Op::kDestroyQp, reply.handle);
            }
        }
    }
    if (error != 0) {
        free_qp(qp);
        errno = error;
        return nullptr;
    }
    qp->sq_sig_all = attr.sq_sig_all != 0;
    qp->parent_domain = init.pd != nullptr ? pd_of(init.pd) : nullptr;
    ref_parent_domain(qp->parent_domain);
    if (qp->parent_domain != nullptr && qp->parent_domain->td != nullptr) {
        qp->sq_lock.disable();
        qp->rq_lock.disable();
    }
    for_each_user_count(*qp, [](std::atomic<std::uint32_t>& users) { users.fetch_add(1); });
    return qp;
}

/// struct ibv_qp_init_attr_ex begins with the members of struct ibv_qp_init_attr.
struct ibv_qp_init_attr_ex widen(const struct ibv_qp_init_attr& attr) {
    struct ibv_qp_init_attr_ex wide {};
    wide.qp_context = attr.qp_context;
    wide.send_cq = attr.send_cq;
    wide.recv_cq = attr.recv_cq;
    wide.srq = attr.srq;
    wide.cap = attr.cap;
    wide.qp_type = attr.qp_type;
    wide.sq_sig_all = attr.sq_sig_all;
    return wide;
}

void fill_init_attr(const Qp& qp, struct ibv_qp_init_attr& attr) {
    attr.qp_context = qp.qp.qp_context;
    attr.send_cq = qp.qp.send_cq;
    attr.recv_cq = qp.qp.recv_cq;
    attr.srq = qp.qp.srq;
    attr.cap = qp.cap;
    attr.qp_type = qp.qp.qp_type;
    attr.sq_sig_all = qp.sq_sig_all ? 1 : 0;
}

}  // namespace

struct ibv_qp* create_qp(struct ibv_pd* pd, struct ibv_qp_init_attr* attr) {
    QpInit init;
    init.pd = pd;
    Qp* qp = make_qp(*context_of(pd->context), widen(*attr), init);
    if (qp == nullptr) {
        return nullptr;
    }
    attr->cap = qp->cap;
    return &qp->qp;
}

struct ibv_qp* create_qp_ex(struct ibv_context* context, struct ibv_qp_init_attr_ex* attr) {
    constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const bool has_flags = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
    const std::uint32_t flags = has_flags ? attr->create_flags : 0;
    if ((attr->comp_mask & ~kKnown) != 0 || (flags & ~std::uint32_t{kQpBlockSelfMcastLb}) != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    QpInit init;
    init.pd = (attr->comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr->pd : nullptr;
    init.xrcd = (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 ? xrcd_of(attr->xrcd) : nullptr;
    init.extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    init.send_ops = init.extended ? attr->send_ops_flags : 0;
    init.create_flags = flags;
    Qp* qp = make_qp(*context_of(context), *attr, init);
    if (qp == nullptr) {
        return nullptr;
    }
    // An XRC target has no PD, but librdmacm creates the SRQ in it.
    qp->qp.pd = init.pd;
    attr->cap = qp->cap;
    return &qp->qp;
}

struct ibv_qp* open_qp(struct ibv_context* ibv_context, struct ibv_qp_open_attr* attr) {
    constexpr std::uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    constexpr std::uint32_t kKnown = kNeeded | IBV_QP_OPEN_ATTR_CONTEXT;
    if ((attr->comp_mask & ~kKnown) != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if ((attr->comp_mask & kNeeded) != kNeeded || attr->qp_type != IBV_QPT_XRC_RECV) {
        errno = EINVAL;
        return nullptr;
    }
    Context& context = *context_of(ibv_context);
    auto* qp = make_object<Qp>();
    if (qp == nullptr) {
        return nullptr;
    }
    std::memset(qp->room, 0, sizeof qp->room);
    qp->context = &context;
    qp->session = context.session;
    qp->is_target = true;
    abi::OpenQpRequest request{};
    request.xrcd = xrcd_of(attr->xrcd)->handle;
    request.qp_num = attr->qp_num;
    request.user_handle = reinterpret_cast<std::uintptr_t>(qp);
    abi::CreateQpReply reply{};
    const int error = qp->session->call(abi::Op::kOpenQp, request, reply);
    if (error != 0) {
        free_qp(qp);
        errno = error;
        return nullptr;
    }
    struct ibv_qp_init_attr_ex init {};
    init.qp_context = (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0 ? attr->qp_context : nullptr;
    init.qp_type = IBV_QPT_XRC_RECV;
    fill_public(*qp, init, {}, reply);
    (void)publish(context, *qp);  // of a target it cannot fail
    return &qp->qp;
}

int modify_qp(struct ibv_qp* ibv_qp, struct ibv_qp_attr* attr, int mask) {
    Qp& qp = *qp_of(ibv_qp);
    abi::ModifyQpRequest request{};
    request.qp = ibv_qp->handle;
    request.attr = to_abi(*attr, mask);
    const QpState state = request.attr.state;
    // A UD QP is ready when librdmacm has made it: no command follows.
    if (ibv_qp->qp_type != IBV_QPT_UD &&
        deferred_modifies().defer(*qp.session, static_cast<QpState>(qp.state.load()), request)) {
        qp.state.store(static_cast<std::uint32_t>(state));
        return 0;
    }
    const bool to_error = (mask & IBV_QP_STATE) != 0 && state == QpState::kErr;
    const std::uint32_t in_error = qp.in_error.load();
    if (to_error) {
        // A receive that is posted from now on may be too late for the daemon's flush, and rings; one that
        // was posted before, under the same lock, is in the ring when the daemon flushes it.
        Guard guard(qp.rq_lock);
        qp.in_error.store(1);
    }
    abi::EmptyReply reply{};
    const int error = qp.session->call(abi::Op::kModifyQp, request, reply);
    if (error != 0) {
        // With the daemon dead every QP is in error, and every work request is flushed already.
        const bool flushed = to_error && qp.session->state() == SessionState::kDead;
        if (to_error && !flushed) {
            qp.in_error.store(in_error);
        }
        return flushed ? 0 : error;
    }
    if ((mask & IBV_QP_STATE) == 0) {
        return 0;
    }
    qp.state.store(static_cast<std::uint32_t>(state));
    if (state == QpState::kReset) {
        reset_rings(qp);
    }
    return 0;
}

int query_qp(struct ibv_qp* ibv_qp, struct ibv_qp_attr* attr, int, struct ibv_qp_init_attr* init_attr) {
    Qp& qp = *qp_of(ibv_qp);
    abi::HandleRequest request{};
    request.handle = ibv_qp->handle;
    abi::QueryQpReply reply{};
    const int error = qp.session->call(abi::Op::kQueryQp, request, reply);
    if (error != 0) {
        return error;
    }
    *attr = {};
    from_abi(reply.attr, *attr);
    attr->cap = qp.cap;
    if (init_attr != nullptr) {
        fill_init_attr(qp, *init_attr);
    }
    return 0;
}

int destroy_qp(struct ibv_qp* ibv_qp) {
    Qp* qp = qp_of(ibv_qp);
    abi::HandleRequest request{};
    request.handle = ibv_qp->handle;
    abi::DestroyReply reply{};
    const int error = qp->session->call(abi::Op::kDestroyQp, request, reply);
    const SessionState state = qp->session->state();
    if (qp->session->is_refusal(error)) {
        return error;
    }
    if (state != SessionState::kForkedChild) {
        unpublish(*qp);
        drain_qp_events(*qp, error != 0 || reply.async_events != 0);
    }
    for_each_user_count(*qp, [](std::atomic<std::uint32_t>& users) { users.fetch_sub(1); });
    pthread_mutex_destroy(&ibv_qp->mutex);
    pthread_cond_destroy(&ibv_qp->cond);
    Pd* parent_domain = qp->parent_domain;
    free_qp(qp);
    unref_parent_domain(parent_domain);
    return 0;
}

}  // namespace urnic::provider
