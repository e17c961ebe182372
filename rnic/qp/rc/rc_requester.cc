#include "rnic/qp/rc/rc_requester.h"

#include <algorithm>

#include "rnic/qp/mw_ops.h"

namespace urnic {

namespace {

constexpr std::uint32_t kAtomicBytes = 8;

/// SendRecord::length_bytes: of the message, or of the response when there is one.
std::uint32_t answered_bytes(const WrRow& row, const SendWork& work) {
    return row.is(WrRow::kIsAtomic)   ? kAtomicBytes
           : row.has_empty_response() ? 0
                                      : static_cast<std::uint32_t>(work.length_bytes);
}

/// The gather or scatter list has the length that the operation wants.
bool has_right_length(const WrRow& row, const SendWork& work) {
    return row.is(WrRow::kIsAtomic)        ? work.length_bytes >= kAtomicBytes
           : row.is(WrRow::kIsAtomicWrite) ? work.length_bytes == kAtomicBytes
           : row.is(WrRow::kIsFlush)       ? work.length_bytes == 0 && work.compare_add <= kMaxMessageBytes
                                           : work.length_bytes <= kMaxMessageBytes;
}

}  // namespace

bool RcRequester::progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    for (std::uint32_t sent = 0; sent < max_packets && outbox.room() != 0; ++sent) {
        if (state_.repair.active() && send_repair(now, outbox)) [[unlikely]] {
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
    return common_.state != QpState::kErr && !state_.waits_for_rnr() &&
           (!window.at_tail() || common_.config.sq.has(window.tail_index()) || state_.repair.has_work());
}

bool RcRequester::has_unsent() const {
    const SendWindow& window = state_.window;
    // One past the newest PSN of any message; behind it nothing was begun.
    return window.sent_end() != window.next_psn() ||
           (common_.state == QpState::kRts && common_.config.sq.has(window.tail_index()));
}

void RcRequester::handle_timeout(TimeNs now, Outbox& outbox) {
    if (state_.waits_for_rnr()) {
        state_.end_rnr_wait();
        state_.start_timer(now);
        return;
    }
    // While nothing may be sent, an answer that does not come proves nothing: what asks for it may be kept
    // back right here, and nothing could go again.
    if (outbox.holds(common_.path)) {
        state_.restart_timers(now);
        return;
    }
    if (now < state_.timer_deadline()) {
        if (!state_.repair.expire(now)) {
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
    if (common_.state == QpState::kErr || state_.waits_for_rnr()) {
        return false;
    }
    if (window.at_tail()) {
        const Begun begun = begin_next(outbox);
        if (begun != Begun::kMessage) {
            return begun == Begun::kLocal;
        }
    }
    if (state_.stops_at(window.cursor_index())) {
        return false;
    }
    const std::uint32_t index = window.cursor_index();
    PacketPlan plan{};
    plan_packet(index, psn_to_send(), plan);
    if (!may_send(plan) || !load_work(index, outbox) || !transmit(index, plan, outbox)) {
        return false;
    }
    if (window.cursor_psn() == window.una_psn()) {
        state_.start_timer(now);
    }
    if (plan.asks_ack) {
        state_.ask(now, plan.record->has_response ? plan.record->last_psn() : plan.psn);
    }
    if (window.cursor_psn() != window.sent_end()) [[unlikely]] {
        ++common_.config.counters->retrans_pkts;
        if (plan.record->has_response && state_.repair.responses_missing()) {
            window.mark_asked_again(index);
            state_.repair.asked(now, *plan.record, plan.psn, plan.record->last_psn() + 1);
        }
    } else if (plan.asks_ack && !plan.record->has_response) {
        state_.measure_answer(now, plan.psn);
    }
    window.advance_cursor();
    return true;
}

// False: the WQE's memory is not what it was; the WQE fails.
bool RcRequester::transmit(std::uint32_t index, const PacketPlan& plan, Outbox& outbox) {
    PieceList pieces;
    if (!gather_payload(plan, pieces) || !outbox.transmit(common_.path, header_of(plan), pieces.span())) {
        state_.set_local_error(index, plan.record->wr_id, WcStatus::kLocProtErr, outbox);
        return false;
    }
    return true;
}

// Sends one packet of what alone has to go again; false when there is none.
bool RcRequester::send_repair(TimeNs now, Outbox& outbox) {
    RcRepair& repair = state_.repair;
    if (common_.state == QpState::kErr || state_.waits_for_rnr()) {
        return false;
    }
    if (!repair.wants_request()) {
        return ask_again(now, outbox);
    }
    const std::uint32_t index = repair.index_of(repair.request_psn());
    PacketPlan plan{};
    plan_packet(index, repair.request_psn(), plan);
    plan.asks_ack = true;
    if (plan.record->has_response) {
        state_.window.mark_asked_again(index);
    }
    repair.request_sent(now);
    if (!load_work(index, outbox) || !transmit(index, plan, outbox)) {
        return false;
    }
    ++common_.config.counters->retrans_pkts;
    return true;
}

// Asks again for the first gap in the responses to one READ, and no more than the gap (IBA 9.7.5.1.5: a READ
// that is repeated may ask for a part); its next gap has to wait (AskedGaps). False when there is none.
bool RcRequester::ask_again(TimeNs now, Outbox& outbox) {
    RcRepair& repair = state_.repair;
    const Psn end = repair.ask_end();
    Psn psn = repair.ask_from();
    if (!repair.responses_missing() || psn.distance(end) >= 0) {
        return false;
    }
    for (std::uint32_t index = repair.index_of(psn); psn.distance(end) < 0; ++index) {
        const SendRecord& record = state_.window.at(index);
        const Psn hole = first_hole(record);
        psn = record.last_psn() + 1;
        // Behind `end` nothing is missing yet: it is on its way, or goes again anyhow.
        if (record.has_response && hole != psn && hole.distance(end) < 0 && !repair.was_asked(hole)) {
            return ask_for(now, index, hole, outbox);
        }
    }
    repair.looked_up_to(psn);
    return false;
}

bool RcRequester::ask_for(TimeNs now, std::uint32_t index, Psn hole, Outbox& outbox) {
    const SendRecord& record = state_.window.at(index);
    const Psn gap_end = end_of_gap(record, hole);
    PacketPlan plan{};
    plan_packet(index, hole, plan);
    plan.read_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        record.length_bytes - plan.offset,
        std::uint64_t{static_cast<std::uint32_t>(gap_end.distance(hole))} << common_.mtu_shift));
    state_.window.mark_asked_again(index);
    state_.repair.asked(now, record, hole, gap_end);
    state_.repair.looked_up_to(record.last_psn() + 1);
    if (!load_work(index, outbox) || !transmit(index, plan, outbox)) {
        return false;
    }
    ++common_.config.counters->retrans_pkts;
    return true;
}

// The first response to a READ or atomic that has not come; one past the last when all have.
Psn RcRequester::first_hole(const SendRecord& record) const {
    const Psn una = state_.window.una_psn();
    Psn psn = una.distance(record.first_psn) > 0 ? una : record.first_psn;
    while (psn.distance(record.last_psn()) <= 0 && state_.held.has(psn)) {
        ++psn;
    }
    return psn;
}

// The PSN of the next packet. A READ that goes again after some of its responses came asks for those from the
// first missing one on: a responder that was asked for a later part need not know what is before it any more.
Psn RcRequester::psn_to_send() const {
    const SendWindow& window = state_.window;
    const SendRecord& record = window.at(window.cursor_index());
    if (!record.has_response || !state_.repair.responses_missing()) [[likely]] {
        return window.cursor_psn();
    }
    const Psn hole = first_hole(record);
    return hole.distance(record.last_psn()) > 0 ? window.cursor_psn() : hole;
}

// One past the last missing response of the gap that begins at `hole`: it ends at one that is held, or with
// the READ.
Psn RcRequester::end_of_gap(const SendRecord& record, Psn hole) const {
    const Psn end = record.last_psn() + 1;
    Psn psn = hole + 1;
    for (std::uint32_t i = 0; i < kMaxHeldPackets && psn.distance(end) < 0; ++i) {
        if (state_.held.has(psn)) {
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
    if (common_.state != QpState::kRts || state_.stops_at(index) || !window.has_room(1)) {
        return Begun::kNothing;
    }
    work_loaded_ = false;
    const Fetch fetch = common_.config.sq.fetch(index, work_);
    if (fetch == Fetch::kEmpty) {
        return Begun::kNothing;
    }
    const WrRow& row = rc_wr_row(work_.opcode);
    const WcStatus status = fetch == Fetch::kOk ? check_new(row) : WcStatus::kLocQpOpErr;
    if (status != WcStatus::kSuccess) {
        state_.set_local_error(index, work_.wr_id, status, outbox);
        return Begun::kNothing;
    }
    // A fenced WQE waits for all READs and atomics before it (IBA 10.8.3.3).
    if ((work_.flags & kSendFence) != 0 && window.responses_in_flight() != 0) {
        return Begun::kNothing;
    }
    if (row.is(WrRow::kIsLocal)) [[unlikely]] {
        return do_local(outbox);
    }
    SendRecord record;
    record.wr_id = work_.wr_id;
    record.length_bytes = answered_bytes(row, work_);
    record.psn_count = row.is(WrRow::kIsAtomic) ? 1 : common_.packets_of(record.length_bytes);
    record.opcode = work_.opcode;
    record.signaled = common_.config.sq_sig_all || (work_.flags & kSendSignaled) != 0;
    record.has_response = row.has_response();
    if (!window.has_room(record.psn_count)) {
        return Begun::kNothing;
    }
    window.add(record);
    work_loaded_ = true;
    return Begun::kMessage;
}

// Binds or invalidates as work_ asks: in its turn, behind everything that has gone out, before everything
// that has not (IBA 10.8.3.3). It completes in its turn, too, when the requests before it have.
RcRequester::Begun RcRequester::do_local(Outbox& outbox) {
    SendWindow& window = state_.window;
    const std::uint32_t index = window.tail_index();
    const WcStatus status = execute_local(common_, work_);
    if (status != WcStatus::kSuccess) {
        state_.set_local_error(index, work_.wr_id, status, outbox);
        return Begun::kNothing;
    }
    SendRecord record;
    record.wr_id = work_.wr_id;
    record.opcode = work_.opcode;
    record.signaled = common_.config.sq_sig_all || (work_.flags & kSendSignaled) != 0;
    window.add_local(record);
    state_.complete_locals(outbox);
    return Begun::kLocal;
}

// What is wrong with the WQE in work_ as such, before any packet of it goes out.
WcStatus RcRequester::check_new(const WrRow& row) const {
    const bool is_inline = (work_.flags & kSendInline) != 0;
    if (!row.is(WrRow::kValid) || (is_inline && row.is(WrRow::kIsRead | WrRow::kIsAtomic)) ||
        (row.has_response() && common_.attr.max_rd_atomic == 0)) {
        return WcStatus::kLocQpOpErr;
    }
    if (!has_right_length(row, work_)) {
        return WcStatus::kLocLenErr;
    }
    if (row.is(WrRow::kIsRead | WrRow::kIsAtomic) &&
        !may_write_all(*common_.config.keys, common_.config.pd, {work_.sge, work_.num_sge})) {
        return WcStatus::kLocProtErr;
    }
    return WcStatus::kSuccess;
}

// Makes work_ the WQE `index`. It is read again from the ring after a rewind: then it has to be what it was.
bool RcRequester::load_work(std::uint32_t index, Outbox& outbox) {
    if (work_loaded_ && work_.index == index) {
        return true;
    }
    const SendRecord& record = state_.window.at(index);
    const WrRow& row = rc_wr_row(record.opcode);
    work_loaded_ = common_.config.sq.fetch(index, work_) == Fetch::kOk && work_.opcode == record.opcode &&
                   has_right_length(row, work_) && answered_bytes(row, work_) == record.length_bytes;
    if (!work_loaded_) {
        state_.set_local_error(index, record.wr_id, WcStatus::kLocQpOpErr, outbox);
    }
    return work_loaded_;
}

// Works out the packet of the WQE `index` that has this PSN.
void RcRequester::plan_packet(std::uint32_t index, Psn psn, PacketPlan& plan) const {
    plan.record = &state_.window.at(index);
    plan.row = &rc_wr_row(plan.record->opcode);
    plan.psn = psn;
    const auto position = static_cast<std::uint32_t>(psn.distance(plan.record->first_psn));
    plan.offset = std::uint64_t{position} << common_.mtu_shift;
    plan.is_first = position == 0;
    plan.is_last = position + 1 == plan.record->psn_count;
    const std::uint64_t left_bytes = plan.record->length_bytes - plan.offset;
    if (plan.record->has_response) {
        plan.asks_ack = true;
        plan.read_bytes = static_cast<std::uint32_t>(left_bytes);
        plan.payload_bytes = plan.row->is(WrRow::kIsAtomicWrite) ? kAtomicBytes : 0;
        return;
    }
    plan.asks_ack = plan.is_last || (psn.value() % kAckEveryPackets) == kAckEveryPackets - 1;
    plan.payload_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(left_bytes, common_.mtu_bytes));
}

// False when the window or the peer has no room for the packet at the cursor.
bool RcRequester::may_send(PacketPlan& plan) const {
    const SendWindow& window = state_.window;
    if (plan.record->has_response) {
        return window.responses_in_flight() < common_.attr.max_rd_atomic;
    }
    const std::uint32_t in_flight = window.packets_in_flight();
    // Before the window closes the peer is made to speak, whatever the packet.
    plan.asks_ack = plan.asks_ack || in_flight + 1 == kMaxInFlightPackets;
    return in_flight < kMaxInFlightPackets && credits_allow(plan);
}

// IBA 9.7.7.2.5: beyond the peer's credits one packet of the next message that takes a receive may go, and
// then no other before its acknowledgement.
bool RcRequester::credits_allow(PacketPlan& plan) const {
    const SendWindow& window = state_.window;
    const bool takes_receive =
        plan.row->is(WrRow::kNeedsReceive) && (plan.is_last || !plan.row->is(WrRow::kReceiveAtEnd));
    if (!takes_receive) [[likely]] {
        return true;
    }
    const std::int32_t beyond = state_.beyond_credits(window.cursor_message());
    if (beyond <= 0) [[likely]] {
        return true;
    }
    plan.asks_ack = true;
    const bool opens_message = plan.is_first || plan.row->is(WrRow::kReceiveAtEnd);
    return (beyond == 1 && opens_message) || window.cursor_psn() == window.una_psn();
}

bool RcRequester::gather_payload(const PacketPlan& plan, PieceList& pieces) const {
    return gather_payload_of(work_, *common_.config.keys, common_.config.pd, plan.offset, plan.payload_bytes,
                             pieces);
}

wire::PacketHeader RcRequester::header_of(const PacketPlan& plan) const {
    const WrRow& row = *plan.row;
    wire::PacketHeader header = common_.header(row.operation(plan.is_first, plan.is_last), plan.psn);
    header.ack_req = plan.asks_ack;
    header.solicited = plan.is_last && row.is(WrRow::kNeedsReceive) && (work_.flags & kSendSolicited) != 0;
    header.imm = work_.imm_or_rkey;
    header.ieth_rkey = work_.imm_or_rkey;
    header.xrc_srq = work_.srq_number;
    if (row.is(WrRow::kIsAtomic)) {
        const bool is_swap = work_.opcode == static_cast<std::uint8_t>(WrOpcode::kCompareSwap);
        header.atomic = {.va = work_.remote_addr,
                         .rkey = work_.rkey,
                         .swap_or_add = is_swap ? work_.swap : work_.compare_add,
                         .compare = is_swap ? work_.compare_add : 0};
        return header;
    }
    if (row.has_empty_response()) {
        const bool is_flush = row.is(WrRow::kIsFlush);
        header.feth = is_flush ? static_cast<std::uint32_t>(work_.swap) : 0;
        header.reth = {.va = work_.remote_addr,
                       .rkey = work_.rkey,
                       .dma_length = is_flush ? static_cast<std::uint32_t>(work_.compare_add) : kAtomicBytes};
        return header;
    }
    // A READ that goes on after a loss asks for the rest alone (IBA 9.7.5.1.5); offset is 0 otherwise.
    header.reth = {.va = work_.remote_addr + plan.offset,
                   .rkey = work_.rkey,
                   .dma_length = row.has_response() ? plan.read_bytes : plan.record->length_bytes};
    return header;
}

}  // namespace urnic
