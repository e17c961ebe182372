#include "rnic/qp/unreliable/unreliable_requester.h"

#include <algorithm>

#include "rnic/qp/completions.h"
#include "rnic/qp/limits.h"
#include "rnic/qp/mw_ops.h"
#include "rnic/qp/sge_list.h"
#include "rnic/wire/frame.h"

namespace urnic {

namespace {

// A work request whose Q_Key has this bit sends the QP's own (IBA 10.2.5).
constexpr std::uint32_t kOwnQkey = 1U << 31U;
constexpr std::uint32_t kQpNumberMask = 0xff'ffff;

}  // namespace

void UnreliableRequester::reset() {
    index_ = 0;
    psn_ = Psn(0);
    in_message_ = false;
}

bool UnreliableRequester::progress(std::uint32_t max_packets, Outbox& outbox) {
    for (std::uint32_t sent = 0; sent < max_packets && outbox.room() != 0; ++sent) {
        const Begun begun = in_message_ ? Begun::kMessage : begin_next(outbox);
        if (begun == Begun::kNothing || (begun == Begun::kMessage && !send_packet(outbox))) {
            return false;
        }
    }
    return in_message_ || (common_.state == QpState::kRts && common_.config.sq.has(index_));
}

// Takes the next WQE from the ring; kNothing when there is none, or it failed. In SQD no new message begins
// (IBA 10.3.1.5).
UnreliableRequester::Begun UnreliableRequester::begin_next(Outbox& outbox) {
    if (common_.state != QpState::kRts) {
        return Begun::kNothing;
    }
    const Fetch fetch = common_.config.sq.fetch(index_, work_);
    if (fetch == Fetch::kEmpty) {
        return Begun::kNothing;
    }
    const bool is_datagram = service_ == wire::kServiceUd;
    info_ = &(is_datagram ? ud_wr_opcode_info(work_.opcode) : uc_wr_opcode_info(work_.opcode));
    header_.dest_qp = common_.attr.dest_qp_num;
    header_.pkey = common_.config.pkey;
    WcStatus status = fetch == Fetch::kOk ? check_new() : WcStatus::kLocQpOpErr;
    if (status == WcStatus::kSuccess && is_datagram) {
        status = address_datagram();
    }
    if (status != WcStatus::kSuccess) [[unlikely]] {
        fail(status, outbox);
        return Begun::kNothing;
    }
    if (info_->is(WrOpcodeInfo::kIsLocal)) [[unlikely]] {
        return process_local_op(outbox);
    }
    header_.imm = work_.imm_or_rkey;
    header_.reth = {.va = work_.wr.rdma.remote_addr,
                    .rkey = work_.wr.rdma.rkey,
                    .dma_length = static_cast<std::uint32_t>(work_.length_bytes)};
    offset_bytes_ = 0;
    in_message_ = true;
    return Begun::kMessage;
}

// Binds or invalidates as work_ asks.
UnreliableRequester::Begun UnreliableRequester::process_local_op(Outbox& outbox) {
    const WcStatus status = execute_mw_op(common_, work_);
    if (status != WcStatus::kSuccess) {
        fail(status, outbox);
        return Begun::kNothing;
    }
    finish(outbox);
    return Begun::kLocal;
}

WcStatus UnreliableRequester::check_new() const {
    if (!info_->is(WrOpcodeInfo::kValid)) {
        return WcStatus::kLocQpOpErr;
    }
    // A datagram is one packet (IBA 9.8.3).
    const std::uint32_t most =
        service_ == wire::kServiceUd ? common_.config.port_mtu_bytes : kMaxMessageBytes;
    return work_.length_bytes > most ? WcStatus::kLocLenErr : WcStatus::kSuccess;
}

// The handle has to be there and to belong to the QP's PD (IBA 10.2.3). Its path is copied, to put the flow's
// source port into it.
WcStatus UnreliableRequester::address_datagram() {
    const auto& ud = work_.wr.ud;
    const AddressHandle* const handle = common_.config.handles->find(ud.address_handle);
    if (handle == nullptr || handle->pd != common_.config.pd) {
        return WcStatus::kLocQpOpErr;
    }
    header_.dest_qp = ud.remote_qp_num & kQpNumberMask;
    header_.deth.qkey = (ud.remote_qkey & kOwnQkey) != 0 ? common_.attr.qkey : ud.remote_qkey;
    header_.deth.src_qp = common_.config.qp_num;
    datagram_path_ = handle->path;
    if (!handle->has_flow_label) {
        wire::set_udp_source_port(datagram_path_,
                                  wire::udp_source_port(0, common_.config.qp_num, header_.dest_qp));
    }
    return WcStatus::kSuccess;
}

// Sends the next packet of the message; false when it failed, or has to wait.
bool UnreliableRequester::send_packet(Outbox& outbox) {
    const bool is_datagram = service_ == wire::kServiceUd;
    if (is_datagram && outbox.defer_if_paused(datagram_path_)) [[unlikely]] {
        in_message_ = false;  // taken up anew: its address handle may have ended by then
        return false;
    }
    const auto left = static_cast<std::uint32_t>(work_.length_bytes) - offset_bytes_;
    const std::uint32_t bytes = is_datagram ? left : std::min(left, common_.mtu_bytes);
    const bool is_last = bytes == left;
    header_.opcode = static_cast<std::uint8_t>(service_ | info_->operation(offset_bytes_ == 0, is_last));
    header_.psn = psn_;
    header_.solicited =
        is_last && info_->is(WrOpcodeInfo::kNeedsReceive) && (work_.flags & kSendSolicited) != 0;
    PieceList pieces;
    if (!gather_payload_of(work_, *common_.config.keys, common_.config.pd, offset_bytes_, bytes, pieces) ||
        !outbox.transmit(is_datagram ? datagram_path_ : common_.path, header_, pieces.span())) [[unlikely]] {
        fail(WcStatus::kLocProtErr, outbox);
        return false;
    }
    ++psn_;
    offset_bytes_ += bytes;
    if (is_last) {
        finish(outbox);
    }
    return true;
}

void UnreliableRequester::finish(Outbox& outbox) {
    in_message_ = false;
    const std::uint32_t index = index_++;
    count_send(common_, info_->completion);
    if (common_.config.sq_sig_all || (work_.flags & kSendSignaled) != 0) {
        complete_send(common_, work_.wr_id, index, static_cast<std::uint32_t>(work_.length_bytes),
                      info_->completion, outbox);
    }
}

void UnreliableRequester::fail(WcStatus status, Outbox& outbox) {
    in_message_ = false;
    // First: a CQ that overruns with this completion takes the QP on to ERR.
    common_.state = QpState::kSqe;
    ++common_.config.counters->send_err;
    complete_send_error(common_, work_.wr_id, index_++, status, outbox);
}

bool UnreliableRequester::flush(std::uint32_t most, Outbox& outbox) {
    for (std::uint32_t done = 0; done < most; ++done) {
        if (!in_message_ && common_.config.sq.fetch(index_, work_) == Fetch::kEmpty) {
            return false;
        }
        in_message_ = false;
        complete_send_error(common_, work_.wr_id, index_++, WcStatus::kWrFlushErr, outbox);
    }
    return true;
}

}  // namespace urnic
