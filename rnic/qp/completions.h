// Completions that mean the same for every transport service.
#pragma once

#include <cstdint>

#include "rnic/qp/qp_common.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

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
    std::uint8_t sl = 0;
};

/// Takes `work`, which has to be the head of the receive queue, off it and completes it with success.
inline void complete_receive(QpCommon& common, const RecvWork& work, const wire::PacketHeader& header,
                             const wire::OpcodeInfo& info, const Received& received, Outbox& outbox) {
    Completion completion;
    completion.wr_id = work.wr_id;
    completion.qp_num = common.config.qp_num;
    completion.wqe_index = work.index;
    completion.byte_len = received.byte_len;
    completion.src_qp = received.src_qp;
    completion.opcode = received.opcode;
    completion.is_recv = true;
    completion.solicited = header.solicited;
    completion.wc_flags = received.wc_flags;
    completion.sl = received.sl;
    if ((info.headers & wire::kHasImm) != 0) {
        completion.imm_or_rkey = header.imm;
        completion.wc_flags |= kWcWithImm;
    }
    if ((info.headers & wire::kHasIeth) != 0) {
        completion.imm_or_rkey = header.ieth_rkey;
        completion.wc_flags |= kWcWithInv;
    }
    common.config.rq.pop();
    common.complete(outbox, *common.config.recv_cq, completion);
}

/// The same with an error.
void complete_receive_error(QpCommon& common, const RecvWork& work, WcStatus status, Outbox& outbox);

/// Completes what is left of the receive queue with WR_FLUSH_ERR, at most `most`; true: there may be more.
bool flush_receives(QpCommon& common, std::uint32_t most, Outbox& outbox);

}  // namespace urnic
