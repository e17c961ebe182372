#include "rnic/qp/completions.h"

namespace urnic {

void complete_send_error(QpCommon& common, std::uint64_t wr_id, std::uint32_t index, WcStatus status,
                         Outbox& outbox) {
    Completion completion;
    completion.wr_id = wr_id;
    completion.qp_num = common.config.qp_num;
    completion.wqe_index = index;
    completion.status = status;
    Counters& counters = *common.config.counters;
    ++counters.req_cqe_error;
    if (status == WcStatus::kWrFlushErr) {
        ++counters.req_cqe_flush_error;
    }
    common.complete(outbox, *common.config.send_cq, completion);
}

void complete_receive_error(QpCommon& common, const RecvWork& work, WcStatus status, Outbox& outbox) {
    Completion completion;
    completion.wr_id = work.wr_id;
    completion.qp_num = common.config.qp_num;
    completion.wqe_index = work.index;
    completion.status = status;
    completion.is_recv = true;
    Counters& counters = *common.config.counters;
    ++counters.resp_cqe_error;
    if (status == WcStatus::kWrFlushErr) {
        ++counters.resp_cqe_flush_error;
    }
    common.config.rq.pop();
    common.complete(outbox, *common.config.recv_cq, completion);
}

bool flush_receives(QpCommon& common, std::uint32_t most, Outbox& outbox) {
    for (std::uint32_t done = 0; done < most; ++done) {
        RecvWork work;
        if (common.config.rq.peek(work) == Fetch::kEmpty) {
            return false;
        }
        complete_receive_error(common, work, WcStatus::kWrFlushErr, outbox);
    }
    return true;
}

}  // namespace urnic
