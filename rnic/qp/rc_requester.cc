#include "rnic/qp/rc_requester.h"

#include <algorithm>

namespace urnic {

bool RcRequester::progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    for (std::uint32_t sent = 0; sent < max_packets && outbox.room() != 0; ++sent) {
        if (!send_next(now, outbox)) {
            return false;
        }
    }
    return more_to_send();
}

bool RcRequester::more_to_send() const {
    const SendWindow& window = state_.window;
    return common_.state != QpState::kErr && !state_.waits_for_rnr() &&
           (!window.at_tail() || common_.config.sq.has(window.tail_index()));
}

void RcRequester::handle_timeout(TimeNs now, Outbox& outbox) {
    if (state_.waits_for_rnr()) {
        state_.end_rnr_wait();
        state_.start_timer(now);
        return;
    }
    ++common_.config.counters->local_ack_timeout_err;
    state_.recovering_response = false;
    (void)state_.retry(now, outbox);
}

// Sends one packet; false when nothing can go now.
bool RcRequester::send_next(TimeNs now, Outbox& outbox) {
    SendWindow& window = state_.window;
    if (common_.state == QpState::kErr || state_.waits_for_rnr() ||
        (window.at_tail() && !begin_next(outbox)) || state_.stops_at(window.cursor_index())) {
        return false;
    }
    const std::uint32_t index = window.cursor_index();
    PacketPlan plan{};
    if (!plan_packet(plan) || !load_work(index, outbox)) {
        return false;
    }
    PieceList pieces;
    if (!gather_payload(plan, pieces) || !outbox.transmit(common_.path, header_of(plan), pieces.span())) {
        state_.set_local_error(index, plan.record->wr_id, WcStatus::kLocProtErr, outbox);
        return false;
    }
    if (window.cursor_psn() == window.una_psn()) {
        state_.start_timer(now);
    }
    window.advance_cursor();
    return true;
}

// Takes the next WQE from the ring into the window; false when there is none or it has to wait.
bool RcRequester::begin_next(Outbox& outbox) {
    SendWindow& window = state_.window;
    const std::uint32_t index = window.tail_index();
    // In SQD no new message begins; in RTR the send queue does not run yet (IBA 10.3.1).
    if (common_.state != QpState::kRts || state_.stops_at(index) || !window.has_room(1)) {
        return false;
    }
    work_loaded_ = false;
    const Fetch fetch = common_.config.sq.fetch(index, work_);
    if (fetch == Fetch::kEmpty) {
        return false;
    }
    const WrRow& row = rc_wr_row(work_.opcode);
    const WcStatus status = fetch == Fetch::kOk ? check_new(row) : WcStatus::kLocQpOpErr;
    if (status != WcStatus::kSuccess) {
        state_.set_local_error(index, work_.wr_id, status, outbox);
        return false;
    }
    // A fenced WQE waits for all READs and atomics before it (IBA 10.8.3.3).
    if ((work_.flags & kSendFence) != 0 && window.responses_in_flight() != 0) {
        return false;
    }
    SendRecord record;
    record.wr_id = work_.wr_id;
    record.length_bytes = row.is(WrRow::kIsAtomic) ? 8 : static_cast<std::uint32_t>(work_.length_bytes);
    record.psn_count = row.is(WrRow::kIsAtomic) ? 1 : common_.packets_of(record.length_bytes);
    record.opcode = work_.opcode;
    record.signaled = common_.config.sq_sig_all || (work_.flags & kSendSignaled) != 0;
    record.has_response = row.has_response();
    if (!window.has_room(record.psn_count)) {
        return false;
    }
    window.add(record);
    work_loaded_ = true;
    return true;
}

// What is wrong with the WQE in work_ as such, before any packet of it goes out.
WcStatus RcRequester::check_new(const WrRow& row) const {
    const bool is_inline = (work_.flags & kSendInline) != 0;
    if (!row.is(WrRow::kValid) || (is_inline && row.has_response()) ||
        (row.has_response() && common_.attr.max_rd_atomic == 0)) {
        return WcStatus::kLocQpOpErr;
    }
    if (work_.length_bytes > kMaxMessageBytes || (row.is(WrRow::kIsAtomic) && work_.length_bytes < 8)) {
        return WcStatus::kLocLenErr;
    }
    if (row.has_response() &&
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
    work_loaded_ =
        common_.config.sq.fetch(index, work_) == Fetch::kOk && work_.opcode == record.opcode &&
        (rc_wr_row(record.opcode).is(WrRow::kIsAtomic) ? work_.length_bytes >= 8
                                                       : work_.length_bytes == record.length_bytes);
    if (!work_loaded_) {
        state_.set_local_error(index, record.wr_id, WcStatus::kLocQpOpErr, outbox);
    }
    return work_loaded_;
}

// Works out the packet at the cursor; false when the window or the peer has no room for it.
bool RcRequester::plan_packet(PacketPlan& plan) const {
    const SendWindow& window = state_.window;
    plan.record = &window.at(window.cursor_index());
    plan.row = &rc_wr_row(plan.record->opcode);
    const auto position = static_cast<std::uint32_t>(window.cursor_psn().distance(plan.record->first_psn));
    plan.offset = std::uint64_t{position} << common_.mtu_shift;
    plan.is_first = position == 0;
    plan.is_last = position + 1 == plan.record->psn_count;
    if (plan.record->has_response) {
        return window.responses_in_flight() < common_.attr.max_rd_atomic;
    }
    plan.payload_bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(plan.record->length_bytes - plan.offset, common_.mtu_bytes));
    return window.packets_in_flight() < kMaxInFlightPackets && credits_allow(plan);
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
    const std::int32_t beyond = state_.beyond_credits(window.cursor_index());
    if (beyond <= 0) [[likely]] {
        return true;
    }
    plan.starved = true;
    const bool opens_message = plan.is_first || plan.row->is(WrRow::kReceiveAtEnd);
    return (beyond == 1 && opens_message) || window.cursor_psn() == window.una_psn();
}

bool RcRequester::gather_payload(const PacketPlan& plan, PieceList& pieces) const {
    if (plan.payload_bytes == 0) {
        return true;
    }
    if (work_.inline_data != nullptr) {
        // transmit() only reads from a piece.
        pieces.piece[0].direct = const_cast<std::byte*>(work_.inline_data) + plan.offset;
        pieces.piece[0].length_bytes = plan.payload_bytes;
        pieces.count = 1;
        return true;
    }
    return gather(*common_.config.keys, common_.config.pd, 0, {work_.sge, work_.num_sge}, plan.offset,
                  plan.payload_bytes, pieces);
}

wire::PacketHeader RcRequester::header_of(const PacketPlan& plan) const {
    const WrRow& row = *plan.row;
    const Psn psn = state_.window.cursor_psn();
    wire::PacketHeader header = common_.header(row.operation(plan.is_first, plan.is_last), psn);
    header.ack_req = plan.is_last || plan.starved || row.has_response() ||
                     (psn.value() % kAckEveryPackets) == kAckEveryPackets - 1;
    header.solicited = plan.is_last && row.is(WrRow::kNeedsReceive) && (work_.flags & kSendSolicited) != 0;
    header.imm = work_.imm_or_rkey;
    header.ieth_rkey = work_.imm_or_rkey;
    if (row.is(WrRow::kIsAtomic)) {
        const bool is_swap = work_.opcode == static_cast<std::uint8_t>(WrOpcode::kCompareSwap);
        header.atomic = {.va = work_.remote_addr,
                         .rkey = work_.rkey,
                         .swap_or_add = is_swap ? work_.swap : work_.compare_add,
                         .compare = is_swap ? work_.compare_add : 0};
        return header;
    }
    // A READ that goes on after a loss asks for the rest alone (IBA 9.7.5.1.5); offset is 0 otherwise.
    header.reth = {.va = work_.remote_addr + plan.offset,
                   .rkey = work_.rkey,
                   .dma_length = static_cast<std::uint32_t>(plan.record->length_bytes - plan.offset)};
    return header;
}

}  // namespace urnic
