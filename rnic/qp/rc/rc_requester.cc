#include "rnic/qp/rc/rc_requester.h"

#include <algorithm>

#include "rnic/qp/mw_ops.h"

namespace urnic {

namespace {

constexpr std::uint32_t kAtomicBytes = 8;

/// InflightWqe::length_bytes: of the message, or of the response when there is one.
std::uint32_t answered_bytes(const WrOpcodeInfo& info, const SendWork& work) {
    return info.is(WrOpcodeInfo::kIsAtomic) ? kAtomicBytes
           : info.has_empty_response()      ? 0
                                            : static_cast<std::uint32_t>(work.length_bytes);
}

/// The gather or scatter list has the length that the operation wants.
bool has_right_length(const WrOpcodeInfo& info, const SendWork& work) {
    return info.is(WrOpcodeInfo::kIsAtomic)        ? work.length_bytes >= kAtomicBytes
           : info.is(WrOpcodeInfo::kIsAtomicWrite) ? work.length_bytes == kAtomicBytes
           : info.is(WrOpcodeInfo::kIsFlush)
               ? work.length_bytes == 0 && work.wr.flush.length <= kMaxMessageBytes
               : work.length_bytes <= kMaxMessageBytes;
}

}  // namespace

bool RcRequester::progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    // Most calls come to acknowledge what arrived, with nothing to send.
    const SendWindow& window = state_.window;
    if (window.at_tail() && !state_.recovery.active() && !common_.config.sq.has(window.tail_index())) {
        wqe_loaded_ = false;
        return false;
    }
    for (std::uint32_t sent = 0; sent < max_packets && outbox.room() != 0; ++sent) {
        if (state_.recovery.active() && send_retransmission(now, outbox)) [[unlikely]] {
            continue;
        }
        if (!send_next(now, outbox)) {
            return false;
        }
    }
    return more_to_send();
}

bool RcRequester::more_to_send() const {
    const SendWindow& window = state_.window;
    return common_.state != QpState::kErr && !state_.is_waiting_for_rnr() &&
           (!window.at_tail() || common_.config.sq.has(window.tail_index()) || state_.recovery.has_work());
}

bool RcRequester::has_unsent() const {
    const SendWindow& window = state_.window;
    // One past the newest PSN of any message; behind it nothing was begun.
    return window.sent_end() != window.next_psn() ||
           (common_.state == QpState::kRts && common_.config.sq.has(window.tail_index()));
}

void RcRequester::handle_timeout(TimeNs now, Outbox& outbox) {
    const RcTimer timer = state_.expired_timer(now);
    if (timer == RcTimer::kRnr) {
        outbox.timer_expired(common_.self, state_.expiry_of(timer));
        state_.end_rnr_wait();
        state_.start_ack_timer(now);
        return;
    }
    // While nothing may be sent, an answer that does not come proves nothing: what asks for it may be kept
    // back right here, and nothing could be sent again.
    if (outbox.defer_if_paused(common_.path)) {
        state_.restart_timers(now);
        return;
    }
    outbox.timer_expired(common_.self, state_.expiry_of(timer));
    if (timer == RcTimer::kProbe) {
        if (!state_.recovery.on_probe_timeout(now)) {
            state_.go_back(now);
        }
        return;
    }
    ++common_.config.counters->local_ack_timeout_err;
    state_.recovering_response = false;
    (void)state_.retry(now, outbox);
}

// Sends one packet, or does what one WQE asks for that sends nothing; false when nothing can go now.
bool RcRequester::send_next(TimeNs now, Outbox& outbox) {
    SendWindow& window = state_.window;
    if (common_.state == QpState::kErr || state_.is_waiting_for_rnr()) {
        return false;
    }
    if (window.at_tail()) {
        const Begun begun = begin_next(outbox);
        if (begun != Begun::kMessage) {
            return begun == Begun::kLocal;
        }
    }
    if (state_.has_local_error_at(window.cursor_index())) {
        return false;
    }
    const std::uint32_t index = window.cursor_index();
    PacketPlan plan;
    plan_packet(index, psn_to_send(), plan);
    if (!admit(plan) || !load_wqe(index, outbox) || !transmit(index, plan, outbox)) {
        return false;
    }
    if (window.cursor_psn() == window.una_psn()) {
        state_.start_ack_timer(now);
    }
    if (plan.asks_ack) {
        state_.on_ack_requested(now, plan.wqe->has_response ? plan.wqe->last_psn() : plan.psn);
    }
    if (window.cursor_psn() != window.sent_end()) [[unlikely]] {
        ++common_.config.counters->retrans_pkts;
        if (plan.wqe->has_response && state_.recovery.responses().has_gap()) {
            window.mark_retried(index);
            state_.recovery.responses().on_read_retry_sent(now, *plan.wqe, plan.psn,
                                                           plan.wqe->last_psn() + 1);
        }
    } else if (plan.asks_ack && !plan.wqe->has_response) {
        state_.start_rtt_sample(now, plan.psn);
    }
    window.advance_cursor();
    return true;
}

// Returns whether the packet went out; if the WQE's memory is not what it was, the WQE fails.
bool RcRequester::transmit(std::uint32_t index, const PacketPlan& plan, Outbox& outbox) {
    PieceList pieces;
    if (!gather_payload(plan, pieces) || !outbox.transmit(common_.path, header_of(plan), pieces.span())) {
        state_.set_local_error(index, plan.wqe->wr_id, WcStatus::kLocProtErr, outbox);
        return false;
    }
    return true;
}

// Sends one packet of what alone has to go again; false when there is none.
bool RcRequester::send_retransmission(TimeNs now, Outbox& outbox) {
    RcLossRecovery& recovery = state_.recovery;
    if (common_.state == QpState::kErr || state_.is_waiting_for_rnr()) {
        return false;
    }
    if (!recovery.must_resend_request()) {
        return retry_next_gap(now, outbox);
    }
    const std::uint32_t index = state_.window.index_of(recovery.resend_psn());
    PacketPlan plan;
    plan_packet(index, recovery.resend_psn(), plan);
    plan.asks_ack = true;
    if (plan.wqe->has_response) {
        state_.window.mark_retried(index);
    }
    recovery.on_request_resent(now);
    if (!load_wqe(index, outbox) || !transmit(index, plan, outbox)) {
        return false;
    }
    ++common_.config.counters->retrans_pkts;
    return true;
}

// Asks again for the first gap in the responses to one READ, and no more than the gap (IBA 9.7.5.1.5: a READ
// that is repeated may ask for a part); its next gap has to wait (ReadRetryRanges). Returns whether there is
// one.
bool RcRequester::retry_next_gap(TimeNs now, Outbox& outbox) {
    ResponseRecovery& responses = state_.recovery.responses();
    const Psn end = responses.retry_end();
    Psn psn = responses.retry_begin();
    if (!responses.has_gap() || psn >= end) {
        return false;
    }
    for (std::uint32_t index = state_.window.index_of(psn); psn < end; ++index) {
        const InflightWqe& wqe = state_.window.at(index);
        const Psn gap = first_missing(wqe);
        psn = wqe.last_psn() + 1;
        // Behind `end` nothing is missing yet: it is on its way, or goes again anyhow.
        if (wqe.has_response && gap != psn && gap < end && !responses.is_retry_pending(gap)) {
            return retry_gap(now, index, gap, outbox);
        }
    }
    responses.set_retry_cursor(psn);
    return false;
}

bool RcRequester::retry_gap(TimeNs now, std::uint32_t index, Psn gap, Outbox& outbox) {
    const InflightWqe& wqe = state_.window.at(index);
    const Psn gap_end = end_of_gap(wqe, gap);
    PacketPlan plan;
    plan_packet(index, gap, plan);
    plan.read_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        wqe.length_bytes - plan.offset,
        std::uint64_t{static_cast<std::uint32_t>(gap_end.distance(gap))} << common_.mtu_shift));
    state_.window.mark_retried(index);
    state_.recovery.responses().on_read_retry_sent(now, wqe, gap, gap_end);
    state_.recovery.responses().set_retry_cursor(wqe.last_psn() + 1);
    if (!load_wqe(index, outbox) || !transmit(index, plan, outbox)) {
        return false;
    }
    ++common_.config.counters->retrans_pkts;
    return true;
}

// The first response to a READ or atomic that has not come; one past the last when all have.
Psn RcRequester::first_missing(const InflightWqe& wqe) const {
    const Psn una = state_.window.una_psn();
    Psn psn = una > wqe.first_psn ? una : wqe.first_psn;
    while (psn <= wqe.last_psn() && state_.early_responses.contains(psn)) {
        ++psn;
    }
    return psn;
}

// The PSN of the next packet. A READ that goes again after some of its responses came asks for those from the
// first missing one on: a responder that was asked for a later part need not know what is before it any more.
Psn RcRequester::psn_to_send() const {
    const SendWindow& window = state_.window;
    const InflightWqe& wqe = window.at(window.cursor_index());
    if (!wqe.has_response || !state_.recovery.responses().has_gap()) [[likely]] {
        return window.cursor_psn();
    }
    const Psn gap = first_missing(wqe);
    return gap > wqe.last_psn() ? window.cursor_psn() : gap;
}

// One past the last missing response of the gap that begins at `hole`: it ends at one that is held, or with
// the READ.
Psn RcRequester::end_of_gap(const InflightWqe& wqe, Psn gap) const {
    const Psn end = wqe.last_psn() + 1;
    Psn psn = gap + 1;
    for (std::uint32_t i = 0; i < kReorderBufferPackets && psn < end; ++i) {
        if (state_.early_responses.contains(psn)) {
            return psn;
        }
        ++psn;
    }
    return end;
}

// Takes the next WQE from the ring into the window; kNothing when there is none or it has to wait.
RcRequester::Begun RcRequester::begin_next(Outbox& outbox) {
    SendWindow& window = state_.window;
    const std::uint32_t index = window.tail_index();
    // In SQD no new message begins; in RTR the send queue does not run yet (IBA 10.3.1).
    if (common_.state != QpState::kRts || state_.has_local_error_at(index) || !window.has_room(1)) {
        return Begun::kNothing;
    }
    wqe_loaded_ = false;
    const Fetch fetch = common_.config.sq.fetch(index, work_);
    if (fetch == Fetch::kEmpty) {
        return Begun::kNothing;
    }
    const WrOpcodeInfo& info = rc_wr_opcode_info(work_.opcode);
    const WcStatus status = fetch == Fetch::kOk ? check_new(info) : WcStatus::kLocQpOpErr;
    if (status != WcStatus::kSuccess) {
        state_.set_local_error(index, work_.wr_id, status, outbox);
        return Begun::kNothing;
    }
    // A fenced WQE waits for all READs and atomics before it (IBA 10.8.3.3).
    if ((work_.flags & kSendFence) != 0 && window.responses_in_flight() != 0) {
        return Begun::kNothing;
    }
    if (info.is(WrOpcodeInfo::kIsLocal)) [[unlikely]] {
        return process_local_op(outbox);
    }
    InflightWqe wqe;
    wqe.wr_id = work_.wr_id;
    wqe.length_bytes = answered_bytes(info, work_);
    wqe.psn_count = info.is(WrOpcodeInfo::kIsAtomic) ? 1 : common_.packets_of(wqe.length_bytes);
    wqe.opcode = work_.opcode;
    wqe.signaled = common_.config.sq_sig_all || (work_.flags & kSendSignaled) != 0;
    wqe.has_response = info.has_response();
    if (!window.has_room(wqe.psn_count)) {
        return Begun::kNothing;
    }
    window.add(wqe);
    wqe_loaded_ = true;
    return Begun::kMessage;
}

// Binds or invalidates as work_ asks: in its turn, behind everything that was sent, before everything
// that has not (IBA 10.8.3.3). It completes in its turn, too, when the requests before it have.
RcRequester::Begun RcRequester::process_local_op(Outbox& outbox) {
    SendWindow& window = state_.window;
    const std::uint32_t index = window.tail_index();
    const WcStatus status = execute_mw_op(common_, work_);
    if (status != WcStatus::kSuccess) {
        state_.set_local_error(index, work_.wr_id, status, outbox);
        return Begun::kNothing;
    }
    InflightWqe wqe;
    wqe.wr_id = work_.wr_id;
    wqe.opcode = work_.opcode;
    wqe.signaled = common_.config.sq_sig_all || (work_.flags & kSendSignaled) != 0;
    window.add_local_op(wqe);
    state_.complete_local_ops(outbox);
    return Begun::kLocal;
}

// What is wrong with the WQE in work_ as such, before any packet of it goes out.
WcStatus RcRequester::check_new(const WrOpcodeInfo& info) const {
    const bool is_inline = (work_.flags & kSendInline) != 0;
    if (!info.is(WrOpcodeInfo::kValid) ||
        (is_inline && info.is(WrOpcodeInfo::kIsRead | WrOpcodeInfo::kIsAtomic)) ||
        (info.has_response() && common_.attr.max_rd_atomic == 0)) {
        return WcStatus::kLocQpOpErr;
    }
    if (!has_right_length(info, work_)) {
        return WcStatus::kLocLenErr;
    }
    if (info.is(WrOpcodeInfo::kIsRead | WrOpcodeInfo::kIsAtomic) &&
        !may_write_all(*common_.config.keys, common_.config.pd, {work_.sge, work_.num_sge})) {
        return WcStatus::kLocProtErr;
    }
    return WcStatus::kSuccess;
}

// Makes work_ the WQE `index`. It is read again from the ring after a rewind: then it has to be what it was.
bool RcRequester::fetch_again(std::uint32_t index, Outbox& outbox) {
    const InflightWqe& wqe = state_.window.at(index);
    const WrOpcodeInfo& info = rc_wr_opcode_info(wqe.opcode);
    wqe_loaded_ = common_.config.sq.fetch(index, work_) == Fetch::kOk && work_.opcode == wqe.opcode &&
                  has_right_length(info, work_) && answered_bytes(info, work_) == wqe.length_bytes;
    if (!wqe_loaded_) {
        state_.set_local_error(index, wqe.wr_id, WcStatus::kLocQpOpErr, outbox);
    }
    return wqe_loaded_;
}

// Works out the packet of the WQE `index` that has this PSN: gives each field a value.
void RcRequester::plan_packet(std::uint32_t index, Psn psn, PacketPlan& plan) const {
    plan.wqe = &state_.window.at(index);
    plan.info = &rc_wr_opcode_info(plan.wqe->opcode);
    plan.psn = psn;
    const auto position = static_cast<std::uint32_t>(psn.distance(plan.wqe->first_psn));
    plan.offset = std::uint64_t{position} << common_.mtu_shift;
    plan.is_first = position == 0;
    plan.is_last = position + 1 == plan.wqe->psn_count;
    const std::uint64_t left_bytes = plan.wqe->length_bytes - plan.offset;
    if (plan.wqe->has_response) {
        plan.asks_ack = true;
        plan.read_bytes = static_cast<std::uint32_t>(left_bytes);
        plan.payload_bytes = plan.info->is(WrOpcodeInfo::kIsAtomicWrite) ? kAtomicBytes : 0;
        return;
    }
    plan.asks_ack = plan.is_last || (psn.value() % kAckEveryPackets) == kAckEveryPackets - 1;
    plan.read_bytes = 0;
    plan.payload_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left_bytes, common_.mtu_bytes));
}

// Returns whether the window and the peer have room for the packet at the cursor. The packet asks for an
// acknowledgement if there is no room behind it.
bool RcRequester::admit(PacketPlan& plan) const {
    const SendWindow& window = state_.window;
    if (plan.wqe->has_response) {
        return window.responses_in_flight() < common_.attr.max_rd_atomic;
    }
    const std::uint32_t in_flight = window.packets_in_flight();
    // Before the window closes the peer is made to speak, whatever the packet.
    plan.asks_ack = plan.asks_ack || in_flight + 1 == kMaxInFlightPackets;
    return in_flight < kMaxInFlightPackets && admit_by_credits(plan);
}

// IBA 9.7.7.2.5: beyond the peer's credits one packet of the next message that takes a receive may go, and
// then no other before its acknowledgement.
bool RcRequester::admit_by_credits(PacketPlan& plan) const {
    const SendWindow& window = state_.window;
    const bool takes_receive = plan.info->is(WrOpcodeInfo::kNeedsReceive) &&
                               (plan.is_last || !plan.info->is(WrOpcodeInfo::kReceiveAtEnd));
    if (!takes_receive) [[likely]] {
        return true;
    }
    const std::int32_t beyond = state_.beyond_credits(window.cursor_message());
    if (beyond <= 0) [[likely]] {
        return true;
    }
    plan.asks_ack = true;
    const bool opens_message = plan.is_first || plan.info->is(WrOpcodeInfo::kReceiveAtEnd);
    return (beyond == 1 && opens_message) || window.cursor_psn() == window.una_psn();
}

bool RcRequester::gather_payload(const PacketPlan& plan, PieceList& pieces) const {
    return gather_payload_of(work_, *common_.config.keys, common_.config.pd, plan.offset, plan.payload_bytes,
                             pieces);
}

wire::PacketHeader RcRequester::header_of(const PacketPlan& plan) const {
    const WrOpcodeInfo& info = *plan.info;
    wire::PacketHeader header = common_.header(info.operation(plan.is_first, plan.is_last), plan.psn);
    header.ack_req = plan.asks_ack;
    header.solicited =
        plan.is_last && info.is(WrOpcodeInfo::kNeedsReceive) && (work_.flags & kSendSolicited) != 0;
    header.imm = work_.imm_or_rkey;
    header.ieth_rkey = work_.imm_or_rkey;
    header.xrc_srq = work_.xrc_srq_number;
    const abi::WrOperands& wr = work_.wr;
    if (info.is(WrOpcodeInfo::kIsAtomic)) {
        const bool is_swap = work_.opcode == static_cast<std::uint8_t>(WrOpcode::kCompareSwap);
        header.atomic = {.va = wr.atomic.remote_addr,
                         .rkey = wr.atomic.rkey,
                         .swap_or_add = is_swap ? wr.atomic.swap : wr.atomic.compare_add,
                         .compare = is_swap ? wr.atomic.compare_add : 0};
        return header;
    }
    if (info.is(WrOpcodeInfo::kIsFlush)) {
        header.feth = wr.flush.feth;
        header.reth = {.va = wr.flush.remote_addr,
                       .rkey = wr.flush.rkey,
                       .dma_length = static_cast<std::uint32_t>(wr.flush.length)};
        return header;
    }
    if (info.is(WrOpcodeInfo::kIsAtomicWrite)) {
        header.reth = {.va = wr.rdma.remote_addr, .rkey = wr.rdma.rkey, .dma_length = kAtomicBytes};
        return header;
    }
    // A READ that continues after a loss asks for the rest alone (IBA 9.7.5.1.5); offset is 0 otherwise.
    header.reth = {.va = wr.rdma.remote_addr + plan.offset,
                   .rkey = wr.rdma.rkey,
                   .dma_length = info.has_response() ? plan.read_bytes : plan.wqe->length_bytes};
    return header;
}

}  // namespace urnic
