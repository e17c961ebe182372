#include "rnic/qp/rc/rc_completer.h"

#include <array>
#include <cstring>

#include "rnic/qp/sge_list.h"
#include "rnic/qp/timing.h"

namespace urnic {

namespace {

// NAK codes 0..4 (IBA table 46) to what the WQE completes with; the others are reserved. A PSN sequence error
// leads to a retry and is not looked up.
constexpr std::array<WcStatus, 4> kNakStatus = {WcStatus::kRetryExcErr, WcStatus::kRemInvReqErr,
                                                WcStatus::kRemAccessErr, WcStatus::kRemOpErr};

WcStatus nak_status(std::uint8_t syndrome) {
    const std::uint8_t code = syndrome & wire::kSyndromeValueMask;
    return code < kNakStatus.size() ? kNakStatus[code] : WcStatus::kBadRespErr;
}

}  // namespace

void RcCompleter::handle_response(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                  Outbox& outbox) {
    const wire::PacketHeader& header = packet.header;
    SendWindow& window = state_.window;
    if (header.psn >= window.sent_end()) {
        return;  // a ghost: nothing with this PSN was sent (IBA 9.7.6.1.1)
    }
    const std::int32_t ahead = header.psn.distance(window.una_psn());
    const bool is_plain_ack = (info.flags & wire::kIsAck) != 0 && (info.headers & wire::kHasAtomicAck) == 0;
    const bool acks = (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
    if ((info.headers & wire::kHasAeth) != 0 && acks && ahead >= -1) {
        state_.update_credits(header.aeth.syndrome, header.aeth.msn);
    }
    if (ahead < 0) {  // a duplicate
        if (ahead == -1 && is_plain_ack && acks && window.is_awaiting_answer() &&
            !state_.is_waiting_for_rnr()) {
            state_.recovery.on_duplicate_ack(now, window.una_psn(), ack_timeout_ns(common_.attr.timeout));
        } else if (is_plain_ack && is_read_rnr_nak(header)) [[unlikely]] {
            handle_rnr_nak(now, header.aeth.syndrome, outbox);
        }
        return;
    }
    if (!is_plain_ack) {
        handle_data(now, packet, info, outbox);
    } else if (acks) {
        handle_acknowledge(now, header, outbox);
    } else {
        handle_nak(now, header, outbox);
    }
    if (state_.recovery.responses().has_gap()) [[unlikely]] {
        drain_reorder_buffer(now, outbox);
    }
    state_.report_local_error(outbox);
}

// Completes everything that an acknowledgement of `psn` covers (IBA 9.7.6.1.2: cumulative). Returns
// whether it could: the window stops at a READ or atomic whose response is missing.
bool RcCompleter::retire_through(Psn psn, Outbox& outbox) {
    SendWindow& window = state_.window;
    while (!window.empty() && psn >= window.una_psn() && common_.state != QpState::kErr) {
        const InflightWqe& wqe = window.oldest();
        if (wqe.has_response) {
            return false;
        }
        const std::uint32_t index = window.una_index();
        const bool whole = psn >= wqe.last_psn();
        if (window.acknowledge(whole ? wqe.last_psn() : psn)) {
            state_.complete_success(wqe, index, outbox);
        }
    }
    return true;
}

// The same, with what follows for retries. Returns whether the rest of the packet is to be processed.
bool RcCompleter::acknowledge_through(TimeNs now, Psn psn, bool is_plain_ack, Outbox& outbox) {
    const Psn before = state_.window.una_psn();
    const Psn cursor = state_.window.cursor_psn();
    const bool complete = retire_through(psn, outbox);
    if (state_.window.una_psn() != before) {
        state_.on_progress(now, outbox);
    }
    if (common_.state == QpState::kErr) {
        return false;
    }
    if (state_.recovery.active() && !state_.recovery.on_ack(now, psn + 1, cursor, is_plain_ack))
        [[unlikely]] {
        state_.go_back(now);
    }
    if (!complete && state_.recovery.is_selective()) {
        on_response_gap(now, psn + 1, outbox);
        return false;
    }
    if (!complete) {
        // Implied NAK: a response got lost on the way (IBA 9.7.6.1.4).
        if (!state_.recovering_response) {
            ++common_.config.counters->implied_nak_seq_err;
            if (state_.retry(now, outbox)) {
                state_.recovering_response = true;
            }
        }
        return false;
    }
    return true;
}

// Responses before `end` got lost: they are asked for again, once, and what comes behind them is held.
void RcCompleter::on_response_gap(TimeNs now, Psn end, Outbox& outbox) {
    const bool is_new = !state_.recovery.responses().has_gap();
    if (is_new) {
        ++common_.config.counters->implied_nak_seq_err;
        if (!state_.consume_retry(now, outbox)) {
            return;
        }
    }
    state_.start_ack_timer(now);
    if (state_.recovery.responses().on_gap(now, end) && !is_new) {
        state_.restore_retries();
    }
}

// Goes on with what is held or was acknowledged behind responses that have come by now.
void RcCompleter::drain_reorder_buffer(TimeNs now, Outbox& outbox) {
    SendWindow& window = state_.window;
    BufferedPacket held;
    while (common_.state != QpState::kErr) {
        const Psn before = window.una_psn();
        (void)retire_through(state_.recovery.responses().answered_end() - 1, outbox);
        if (window.una_psn() != before) {
            state_.on_progress(now, outbox);  // ends a sample of the round trip that would else stay open
        }
        state_.early_responses.drop_before(window.una_psn());
        if (state_.recovery.responses().on_window_advanced(now) ||
            !state_.early_responses.extract(window.una_psn(), held)) {
            return;
        }
        wire::PacketView packet;
        packet.header = held.header;
        packet.payload = held.payload;
        process_response(now, packet, wire::opcode_info(held.header.opcode), outbox);
        state_.early_responses.release(held);
    }
}

void RcCompleter::handle_acknowledge(TimeNs now, const wire::PacketHeader& header, Outbox& outbox) {
    (void)acknowledge_through(now, header.psn, true, outbox);
}

// Returns whether a packet behind the window is an RNR NAK with which the peer stops in the middle of its
// answer to the oldest READ: such a NAK has the PSN of the request (Linux rxe). It may as well be a late
// duplicate, so it fails nothing: without a retry left the ACK timeout continues.
bool RcCompleter::is_read_rnr_nak(const wire::PacketHeader& header) const {
    const SendWindow& window = state_.window;
    return (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnrNak &&
           window.is_awaiting_answer() && window.oldest().has_response &&
           header.psn >= window.oldest().first_psn && state_.has_rnr_retry();
}

void RcCompleter::handle_rnr_nak(TimeNs now, std::uint8_t syndrome, Outbox& outbox) {
    ++common_.config.counters->rcvd_rnr_err;
    state_.retry_after_rnr(now, syndrome & wire::kSyndromeValueMask, outbox);
}

void RcCompleter::handle_nak(TimeNs now, const wire::PacketHeader& header, Outbox& outbox) {
    Counters& counters = *common_.config.counters;
    const std::uint8_t syndrome = header.aeth.syndrome;
    const bool is_rnr = (syndrome & wire::kSyndromeKindMask) == wire::kSyndromeRnrNak;
    // A NAK acknowledges everything before its PSN. Responses that are missing there can be asked for again
    // beside it, after the wait that an RNR NAK asks for, unless it ends the connection: then those before it
    // come first.
    const bool may_wait = is_rnr && state_.has_rnr_retry();
    if (!acknowledge_through(now, header.psn - 1, false, outbox) && !may_wait &&
        !(syndrome == wire::kNakPsnSequenceError && state_.recovery.responses().has_gap())) {
        return;
    }
    if (common_.state == QpState::kErr) {
        return;
    }
    if (is_rnr) {
        handle_rnr_nak(now, syndrome, outbox);
        return;
    }
    if (syndrome == wire::kNakPsnSequenceError) {
        ++counters.rcvd_seq_err;
        ++counters.packet_seq_err;
        if (state_.consume_retry(now, outbox) && !state_.recovery.on_sequence_nak(now, header.psn)) {
            state_.go_back(now);
        }
        return;
    }
    const WcStatus status = (syndrome & wire::kSyndromeKindMask) == wire::kSyndromeNak
                                ? nak_status(syndrome)
                                : WcStatus::kBadRespErr;
    if (status == WcStatus::kRemInvReqErr) {
        ++counters.req_remote_invalid_request;
    } else if (status == WcStatus::kRemAccessErr) {
        ++counters.req_remote_access_errors;
    }
    state_.fail_oldest(status, outbox);
}

// A READ response packet or an ATOMIC Acknowledge; its PSN is not behind the window.
void RcCompleter::handle_data(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                              Outbox& outbox) {
    // It acknowledges everything before itself; after this its PSN is the oldest outstanding one.
    const Psn psn = packet.header.psn;
    if (state_.recovery.responses().has_gap()) [[unlikely]] {
        state_.recovery.responses().on_response(psn);
    }
    if (!acknowledge_through(now, psn - 1, false, outbox)) {
        if (state_.recovery.responses().has_gap()) {
            state_.early_responses.insert(packet, state_.window.una_psn());
            if (state_.recovery.responses().on_gap(now, psn + 1)) {
                state_.restore_retries();
            }
            (void)state_.recovery.on_ack(now, psn + 1, state_.window.cursor_psn(), false);
        }
        return;
    }
    process_response(now, packet, info, outbox);
}

// The same, for what comes in its turn.
void RcCompleter::process_response(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                   Outbox& outbox) {
    const Psn psn = packet.header.psn;
    SendWindow& window = state_.window;
    if (!is_expected_response(packet, info)) {
        state_.fail_oldest(WcStatus::kBadRespErr, outbox);
        return;
    }
    const WcStatus status = store(packet, info);
    if (status != WcStatus::kSuccess) {
        state_.fail_oldest(status, outbox);
        return;
    }
    const InflightWqe& wqe = window.oldest();
    const std::uint32_t index = window.una_index();
    const Psn cursor = window.cursor_psn();
    if (window.acknowledge(psn)) {
        wqe_loaded_ = false;  // its index comes round
        state_.complete_success(wqe, index, outbox);
    }
    state_.on_progress(now, outbox);
    if (state_.recovery.active()) [[unlikely]] {
        (void)state_.recovery.on_ack(now, psn + 1, cursor, false);
    }
}

// Returns whether the packet is the very response that the oldest WQE waits for.
bool RcCompleter::is_expected_response(const wire::PacketView& packet, const wire::OpcodeInfo& info) const {
    const InflightWqe& wqe = state_.window.oldest();
    const WrOpcodeInfo& wr_info = rc_wr_opcode_info(wqe.opcode);
    if ((info.headers & wire::kHasAeth) != 0 &&
        (packet.header.aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeAck) {
        return false;  // a NAK comes without data
    }
    if ((info.headers & wire::kHasAtomicAck) != 0) {
        return wr_info.is(WrOpcodeInfo::kIsAtomic);
    }
    if (wr_info.has_empty_response()) {
        constexpr std::uint16_t kOnly = wire::kStarts | wire::kEnds;
        return (info.flags & kOnly) == kOnly && packet.payload.empty();
    }
    if (!wr_info.is(WrOpcodeInfo::kIsRead)) {
        return false;
    }
    const Psn psn = packet.header.psn;
    // First and Only begin an answer: where the READ begins, or where a part of it was asked for again. Linux
    // rxe that could not send its first response continues with Middle or Last when the next request comes,
    // whichever that is; its RNR NAK may have been lost. PSN and length say what such a packet is.
    const bool starts = (info.flags & wire::kStarts) != 0;
    const bool may_go_on = wqe.is_retried || state_.peer_refused_read;
    if (psn == wqe.first_psn ? !starts && !may_go_on : starts && !wqe.is_retried) {
        return false;
    }
    const auto position = static_cast<std::uint32_t>(psn.distance(wqe.first_psn));
    const std::uint64_t offset = std::uint64_t{position} << common_.mtu_shift;
    const bool is_last = psn == wqe.last_psn();
    const std::uint64_t expected = is_last ? wqe.length_bytes - offset : common_.mtu_bytes;
    // The answer to a READ that asked for a gap alone ends before what is held.
    const bool ends = (info.flags & wire::kEnds) != 0;
    return (is_last ? ends : !ends || state_.early_responses.contains(psn + 1)) &&
           packet.payload.size() == expected;
}

// Writes the response's data to the WQE's list; a success is not complete before.
WcStatus RcCompleter::store(const wire::PacketView& packet, const wire::OpcodeInfo& info) {
    const InflightWqe& wqe = state_.window.oldest();
    if (wqe.length_bytes == 0) {
        return WcStatus::kSuccess;
    }
    if (!load_wqe()) {
        return WcStatus::kLocQpOpErr;
    }
    std::array<std::byte, sizeof(std::uint64_t)> original;
    std::span<const std::byte> data = packet.payload;
    std::uint64_t offset = 0;
    if ((info.headers & wire::kHasAtomicAck) != 0) {
        std::memcpy(original.data(), &packet.header.atomic_ack, original.size());
        data = original;
    } else {
        const auto position = static_cast<std::uint32_t>(packet.header.psn.distance(wqe.first_psn));
        offset = std::uint64_t{position} << common_.mtu_shift;
    }
    return scatter(*common_.config.keys, common_.config.pd, {work_.sge, work_.num_sge}, offset, data)
               ? WcStatus::kSuccess
               : WcStatus::kLocProtErr;
}

// Makes work_ the oldest WQE, as it was when its request went out.
bool RcCompleter::load_wqe() {
    const std::uint32_t index = state_.window.una_index();
    if (!wqe_loaded_ || work_.index != index) {
        const InflightWqe& wqe = state_.window.oldest();
        wqe_loaded_ = common_.config.sq.fetch(index, work_) == Fetch::kOk && work_.opcode == wqe.opcode &&
                      work_.inline_data == nullptr && work_.length_bytes >= wqe.length_bytes;
    }
    return wqe_loaded_;
}

}  // namespace urnic
