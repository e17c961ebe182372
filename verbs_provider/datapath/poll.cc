// Polling a CQ: no system call unless the daemon competes for this core and there is nothing to take.
#include <errno.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/datapath/poll_wait.h"

namespace urnic::provider {

namespace {

/// Accounts for a completion: the work requests up to it have left their ring. Returns whether the
/// application may see it: not if its QP was destroyed or reset since.
inline bool account(const Cq& cq, const abi::Cqe& cqe) {
    if (cqe.srq_number != 0) [[unlikely]] {
        // XRC: the target QP may be another process's, and an SRQ that ends takes its completions with it.
        return cqe.qp_num != 0;
    }
    const bool is_recv = cqe.is_recv != 0;
    Qp* qp = cqe.qp_num != 0 ? cq.context->qp_table.find(cqe.qp_num, cq, is_recv) : nullptr;
    if (qp == nullptr) {
        return false;
    }
    // A receive of an SRQ left its ring when it was taken (Srq::ring).
    if (!is_recv) {
        qp->sq.complete_until(cqe.wqe_index + 1);
    } else if (qp->qp.srq == nullptr) [[likely]] {
        qp->rq.complete_until(cqe.wqe_index + 1);
    }
    if (cqe.status != static_cast<std::uint8_t>(WcStatus::kSuccess)) [[unlikely]] {
        mark_error(*qp);
    }
    return true;
}

inline void fill(struct ibv_wc& wc, const abi::Cqe& cqe) {
    wc.wr_id = cqe.wr_id;
    wc.status = static_cast<enum ibv_wc_status>(cqe.status);
    wc.opcode = static_cast<enum ibv_wc_opcode>(cqe.opcode);
    wc.vendor_err = cqe.vendor_err;
    wc.byte_len = cqe.byte_len;
    wc.imm_data = cqe.imm_or_rkey;  // and invalidated_rkey: a union
    wc.qp_num = cqe.qp_num;
    wc.src_qp = cqe.src_qp;
    wc.wc_flags = cqe.wc_flags;
    wc.pkey_index = 0;
    static_assert(offsetof(struct ibv_wc, dlid_path_bits) - offsetof(struct ibv_wc, slid) == 3);
    std::memcpy(static_cast<void*>(&wc.slid), &cqe.link, sizeof cqe.link);  // and sl, dlid_path_bits
}

/// The next completion that a resize left behind; nullptr, and has_leftover false, when there is none.
const abi::Cqe* next_leftover(Cq& cq) {
    if (cq.backlog_next < cq.backlog_count) {
        return &cq.backlog[cq.backlog_next++];
    }
    for (std::uint32_t worker = 0; cq.old_rings.memory != nullptr && worker < cq.num_workers; ++worker) {
        if (const abi::Cqe* cqe = cq.old_rings.front_of_replaced(worker); cqe != nullptr) {
            ++cq.old_rings.taken[worker];
            return cqe;
        }
    }
    cq.old_rings.unmap();
    std::free(cq.backlog);
    cq.backlog = nullptr;
    cq.backlog_next = cq.backlog_count = 0;
    cq.has_leftover = false;
    return nullptr;
}

/// Calls take(cqe) for completions, oldest first, until it has taken `wanted`; how many it took.
template <class Take>
int drain_rings(Cq& cq, int wanted, Take take) {
    CqRings& rings = cq.rings;
    int got = 0;
    std::uint32_t worker = cq.next_worker;
    for (std::uint32_t tried = 0; tried < cq.num_workers && got < wanted; ++tried) {
        const std::uint32_t before = rings.taken[worker];
        const abi::Cqe* cqe = nullptr;
        while (got < wanted && (cqe = rings.front(worker)) != nullptr) {
            ++rings.taken[worker];
            if (account(cq, *cqe)) {
                take(*cqe);
                ++got;
            } else if (rings.taken[worker] - before >= rings.entries) [[unlikely]] {
                break;  // a daemon that fills the ring all the time with what is nobody's keeps nobody here
            }
        }
        if (rings.taken[worker] != before) {
            rings.header().consumer[worker].index.store(rings.taken[worker], std::memory_order_release);
        }
        worker = worker + 1 == cq.num_workers ? 0 : worker + 1;
    }
    cq.next_worker = worker;
    return got;
}

template <class Take>
int drain(Cq& cq, int wanted, Take take) {
    // Read before the rings: what they hold when the daemon is dead comes before the flush.
    const bool dead = cq.context->session->state() == SessionState::kDead;
    int got = 0;
    while (cq.has_leftover && got < wanted) [[unlikely]] {
            const abi::Cqe* cqe = next_leftover(cq);
            if (cqe != nullptr && account(cq, *cqe)) {
                take(*cqe);
                ++got;
            }
        }
    got += drain_rings(cq, wanted - got, take);
    if (dead) [[unlikely]] {
        abi::Cqe flushed{};
        while (got < wanted && flush_one(cq, flushed)) {
            take(flushed);
            ++got;
        }
    }
    return got;
}

inline int take(Cq& cq, int num_entries, struct ibv_wc* wc) {
    cq.lock.lock();
    const int got = drain(cq, num_entries, [&wc](const abi::Cqe& cqe) { fill(*wc++, cqe); });
    if (got == num_entries) {
        notify_rest(cq);
    }
    cq.lock.unlock();
    return got;
}

}  // namespace

bool has_completion(const Cq& cq) {
    for (std::uint32_t worker = 0; worker < cq.num_workers; ++worker) {
        if (cq.rings.front(worker) != nullptr) {
            return true;
        }
    }
    return cq.has_leftover;
}

void notify_rest(Cq& cq) {
    std::atomic<std::uint32_t>& arm = cq.rings.header().arm;
    if (arm.load(std::memory_order_relaxed) != abi::kCqArmedAny || !has_completion(cq)) [[likely]] {
        return;
    }
    if (cq.moderated && !cq.was_armed_nonempty) {
        return;  // they came after the CQ was armed, and the daemon counts them
    }
    if (arm.exchange(abi::kCqDisarmed) == abi::kCqArmedAny && !notify_channel(cq)) {
        arm.store(abi::kCqArmedAny);  // no room in the channel: with the next completion, or the next poll
    }
}

int poll_cq(struct ibv_cq* ibv_cq, int num_entries, struct ibv_wc* wc) {
    Cq& cq = *cq_of(ibv_cq);
    const Session& session = *cq.context->session;
    if (session.state_relaxed() == SessionState::kForkedChild) [[unlikely]] {
        errno = EIO;
        return -1;
    }
    if (num_entries <= 0) {
        return 0;
    }
    int got = take(cq, num_entries, wc);
    if (got == 0) {
        if (poll_missed(cq)) {
            got = take(cq, num_entries, wc);
        }
        // An rsocket that waits for its peer's credit has nothing outstanding that could be flushed: the
        // error of its CQ is what ends it.
        if (got == 0 && cq.is_librdmacms && session.state_relaxed() == SessionState::kDead) [[unlikely]] {
            errno = EIO;
            return -1;
        }
    } else {
        give_way_after_wake(cq);
    }
    return got;
}

bool take_one(Cq& cq, abi::Cqe& cqe) {
    return drain(cq, 1, [&cqe](const abi::Cqe& from) {
               std::memcpy(static_cast<void*>(&cqe), &from, sizeof cqe);
           }) == 1;
}

}  // namespace urnic::provider
