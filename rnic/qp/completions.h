// Completions that mean the same for every transport service.
#pragma once

#include <cstdint>

#include "rnic/qp/qp_common.h"
#include "rnic/qp/recv_wqe.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

/// Counts a send WQE that has done its work, whether or not it reports that.
inline void count_send(const QpCommon& common, WcOpcode opcode) {
    if (opcode == WcOpcode::kSend) {
        ++common.config.counters->rdma_sends;
    }
}

/// A send WQE that has done its work.
inline void complete_send(QpCommon& common, std::uint64_t wr_id, std::uint32_t index, std::uint32_t byte_len,
                          WcOpcode opcode, Outbox& outbox) {
    Completion completion;
    completion.wr_id = wr_id;
    completion.qp_num = common.config.qp_num;
    completion.wqe_index = index;
    completion.byte_len = byte_len;
    completion.opcode = opcode;
    common.complete(outbox, *common.config.send_cq, completion);
}

/// A send WQE that failed, or was flushed.
void complete_send_error(QpCommon& common, std::uint64_t wr_id, std::uint32_t index, WcStatus status,
                         Outbox& outbox);

/// What a receive completion says beyond what the packet that ended the message says.
struct Received {
    WcOpcode opcode = WcOpcode::kRecv;
    std::uint32_t byte_len = 0;
    std::uint32_t src_qp = 0;
    std::uint8_t wc_flags = 0;
    abi::CqeLink link{};
};

/// What every completion of a receive says.
[[nodiscard]] inline Completion completion_of(const QpCommon& common, const RecvWqe& receive) {
    Completion completion;
    completion.wr_id = receive.work.wr_id;
    completion.qp_num = common.config.qp_num;
    completion.wqe_index = receive.work.index;
    completion.is_recv = true;
    if (receive.srq != nullptr && receive.srq->identity().cq != nullptr) [[unlikely]] {
        completion.srq_number = receive.srq->identity().number;
    }
    return completion;
}
/// Where a receive completes.
[[nodiscard]] inline CompletionQueue& cq_of(const QpCommon& common, const RecvWqe& receive) {
    const bool is_xrc = receive.srq != nullptr && receive.srq->identity().cq != nullptr;
    return is_xrc ? *receive.srq->identity().cq : *common.config.recv_cq;
}

/// Completes a receive that was taken with success.
inline void complete_receive(QpCommon& common, RecvWqe& receive, const wire::PacketHeader& header,
                             const wire::OpcodeInfo& info, const Received& received, Outbox& outbox) {
    Completion completion = completion_of(common, receive);
    completion.byte_len = received.byte_len;
    completion.src_qp = received.src_qp;
    completion.opcode = received.opcode;
    completion.solicited = header.solicited;
    completion.wc_flags = received.wc_flags;
    completion.link = received.link;
    if ((info.headers & wire::kHasImm) != 0) {
        completion.imm_or_rkey = header.imm;
        completion.wc_flags |= kWcWithImm;
    }
    if ((info.headers & wire::kHasIeth) != 0) {
        completion.imm_or_rkey = header.ieth_rkey;
        completion.wc_flags |= kWcWithInv;
    }
    receive.in_use = false;
    ++common.config.counters->rdma_recvs;
    common.complete(outbox, cq_of(common, receive), completion);
}

/// The same with an error.
void complete_receive_error(QpCommon& common, RecvWqe& receive, WcStatus status, Outbox& outbox);

/// What peek() called malformed, for a QP that answers nothing: the WQE of the QP's own queue is taken and
/// fails, an SRQ in error takes the QP with it. Leaves the QP in ERR.
void fail_malformed_receive(QpCommon& common, RecvWqe& receive, Outbox& outbox);

/// Completes `receive`, if it was taken, and what is left of the receive queue with WR_FLUSH_ERR, at most
/// `most`. Returns whether there may be more. Receives of an SRQ stay there for other QPs, and the
/// application is told, once, that this one takes no more (IBA 10.3.1: Last WQE Reached).
bool flush_receives(QpCommon& common, RecvWqe& receive, std::uint32_t most, Outbox& outbox);

}  // namespace urnic
