// The receive WQE that a message fills: copied and taken from its queue with the first packet that needs it,
// so that messages of several QPs can fill receives of one SRQ side by side.
#pragma once

#include "rnic/qp/qp_common.h"
#include "rnic/queue/shared_recv_queue.h"
#include "rnic/queue/work_queue.h"

namespace urnic {

struct RecvWqe {
    bool in_use = false;             // taken, and not completed yet
    SharedRecvQueue* srq = nullptr;  // where it comes from; nullptr: the QP's own queue
    RecvWork work;

    /// The PD that its L_Keys belong to: the SRQ's or the QP's.
    [[nodiscard]] std::uint32_t pd(const QpCommon& common) const {
        return srq != nullptr ? srq->identity().pd : common.config.pd;
    }
    [[nodiscard]] std::span<const abi::Sge> list() const { return {work.sge, work.num_sge}; }

    /// Looks at the next receive of `from` (nullptr: of the QP's own queue) without taking it.
    [[nodiscard]] Fetch peek(QpCommon& common, SharedRecvQueue* from, Outbox& outbox) {
        srq = from;
        if (srq == nullptr) [[likely]] {
            return common.config.rq.peek(work);
        }
        const Fetch fetch = srq->peek(work);
        if (fetch == Fetch::kMalformed && srq->take_error_report()) {
            outbox.srq_event(*srq, AsyncEventType::kSrqErr);
        }
        return fetch;
    }
    /// Takes what peek() saw.
    void consume(QpCommon& common, Outbox& outbox) {
        in_use = true;
        if (srq == nullptr) [[likely]] {
            common.config.rq.pop();
        } else if (srq->pop()) {
            outbox.srq_event(*srq, AsyncEventType::kSrqLimitReached);
        }
    }
};

}  // namespace urnic
