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

void complete_receive_error(QpCommon& common, RecvWqe& receive, WcStatus status, Outbox& outbox) {
    Completion completion = completion_of(common, receive);
    completion.status = status;
    // An error has no opcode (IBA 11.4.2.1), but programs tell a receive by it (uDAPL).
    completion.opcode = WcOpcode::kRecv;
    Counters& counters = *common.config.counters;
    ++counters.resp_cqe_error;
    if (status == WcStatus::kWrFlushErr) {
        ++counters.resp_cqe_flush_error;
    }
    receive.in_use = false;
    common.complete(outbox, cq_of(common, receive), completion);
}

void fail_malformed_receive(QpCommon& common, RecvWqe& receive, Outbox& outbox) {
    if (receive.srq != nullptr) {
        outbox.event(common.self, AsyncEventType::kQpFatal);
    } else {
        receive.consume(common, outbox);
        complete_receive_error(common, receive, WcStatus::kLocQpOpErr, outbox);
    }
    common.enter_error();
}

bool flush_receives(QpCommon& common, RecvWqe& receive, std::uint32_t most, Outbox& outbox) {
    if (receive.in_use) {
        complete_receive_error(common, receive, WcStatus::kWrFlushErr, outbox);
    }
    if (common.has_srq()) {
        if (!common.last_wqe_reported) {
            common.last_wqe_reported = true;
            outbox.event(common.self, AsyncEventType::kQpLastWqeReached);
        }
        return false;
    }
    for (std::uint32_t done = 0; done < most; ++done) {
        if (receive.peek(common, nullptr, outbox) == Fetch::kEmpty) {
            return false;
        }
        receive.consume(common, outbox);
        complete_receive_error(common, receive, WcStatus::kWrFlushErr, outbox);
    }
    return true;
}

}  // namespace urnic
