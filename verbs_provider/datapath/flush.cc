// Flushing without a daemon: once it is dead, every outstanding work request completes with WR_FLUSH_ERR,
// made here from what stands in the rings (IBA 10.3.1: work requests of a QP in error are flushed).
#include <time.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

void fill_flushed(abi::Cqe& cqe, const Qp& qp, bool is_recv, std::uint64_t wr_id) {
    cqe.status = static_cast<std::uint8_t>(WcStatus::kWrFlushErr);
    cqe.opcode = static_cast<std::uint8_t>(is_recv ? WcOpcode::kRecv : WcOpcode::kSend);
    cqe.is_recv = is_recv ? 1 : 0;
    cqe.wc_flags = 0;
    cqe.wr_id = wr_id;
    cqe.qp_num = qp.qp.qp_num;
    cqe.byte_len = 0;
    cqe.link = {};
    struct timespec now {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    cqe.timestamp_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Completes the oldest entry of a ring, if it has one.
bool flush_ring(const Qp& qp, WorkRing& ring, bool is_recv, abi::Cqe& cqe) {
    if (!ring.outstanding()) {
        return false;
    }
    const std::uint32_t index = ring.done.load(std::memory_order_relaxed);
    const std::byte* slot = ring.slot(index);
    const std::uint64_t wr_id = is_recv ? reinterpret_cast<const abi::RecvWqe*>(slot)->wr_id
                                        : reinterpret_cast<const abi::SendWqe*>(slot)->wr_id;
    fill_flushed(cqe, qp, is_recv, wr_id);
    ring.done.store(index + 1, std::memory_order_release);
    return true;
}

bool has_something(Cq& cq) {
    if (has_completion(cq)) {
        return true;
    }
    Guard guard(cq.context->objects_mutex);
    for (const Qp* qp = cq.context->qps; qp != nullptr; qp = qp->next) {
        if ((qp->qp.send_cq == &cq.cq && qp->sq.outstanding()) ||
            (qp->qp.recv_cq == &cq.cq && qp->rq.outstanding())) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool flush_one(Cq& cq, abi::Cqe& cqe) {
    Guard guard(cq.context->objects_mutex);
    for (Qp* qp = cq.context->qps; qp != nullptr; qp = qp->next) {
        if ((qp->qp.send_cq == &cq.cq && flush_ring(*qp, qp->sq, false, cqe)) ||
            (qp->qp.recv_cq == &cq.cq && flush_ring(*qp, qp->rq, true, cqe))) {
            return true;
        }
    }
    return false;
}

void notify_flush(Cq& cq) {
    const CqGuard guard(cq);
    if (cq.channel != nullptr && has_something(cq) &&
        cq.rings.header().arm.exchange(abi::kCqDisarmed) != abi::kCqDisarmed) {
        (void)notify_channel(cq);
    }
}

}  // namespace urnic::provider
