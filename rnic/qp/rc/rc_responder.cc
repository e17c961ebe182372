#include "rnic/qp/rc/rc_responder.h"

#include "rnic/qp/completions.h"
#include "rnic/qp/rc/atomic_ops.h"
#include "rnic/qp/sge_list.h"
#include "rnic/qp/timing.h"

namespace urnic {

const RcResponder::Refusal RcResponder::kInvalidRequest = {wire::kNakInvalidRequest, WcStatus::kRemInvReqErr,
                                                           AsyncEventType::kQpReqErr};
// The receive is that of a WRITE with Immediate, to which the violation is one of its own memory
// (IBA 11.6.2).
const RcResponder::Refusal RcResponder::kAccessError = {wire::kNakRemoteAccessError, WcStatus::kLocAccessErr,
                                                        AsyncEventType::kQpAccessErr};

void RcResponder::reset(Psn first_psn) {
    expected_psn_ = first_psn;
    msn_ = 0;
    gap_.reset();
    final_ack_pending_ = false;
    early_requests_.clear();
    message_ = Message::kNone;
    receive_.in_use = false;
    receives_seen_ = 0;
    responses_.reset();
    replay_cache_.reset();
}

void RcResponder::handle_request(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                 Outbox& outbox) {
    const std::int32_t ahead = packet.header.psn.distance(expected_psn_);
    if (ahead != 0) [[unlikely]] {
        if (ahead > 0) {
            handle_out_of_sequence(now, packet, outbox);
        } else {
            handle_duplicate(packet, info);
        }
        return;
    }
    if (gap_.is_open()) [[unlikely]] {
        on_gap_filled(now, packet, info, outbox);
        return;
    }
    execute(packet, info, outbox);
}

void RcResponder::execute(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox) {
    if (!find_srq(packet.header) || !sequence_ok(packet, info)) [[unlikely]] {
        refuse(kInvalidRequest, outbox);
        return;
    }
    if ((info.flags & wire::kIsWrite) != 0) {
        handle_write(packet, info, outbox);
    } else if ((info.flags & wire::kIsSend) != 0) {
        handle_send(packet, info, outbox);
    } else if ((info.flags & wire::kIsRead) != 0) {
        handle_read(packet, outbox);
    } else if ((info.flags & wire::kIsAtomic) != 0) {
        handle_atomic(packet, outbox);
    } else if ((info.flags & wire::kIsAtomicWrite) != 0) {
        handle_atomic_write(packet, outbox);
    } else if ((info.flags & wire::kIsFlush) != 0) {
        handle_flush(packet, outbox);
    } else {
        refuse(kInvalidRequest, outbox);  // a reserved opcode
    }
}

bool RcResponder::progress(std::uint32_t max_packets, Outbox& outbox, Outbox& data) {
    return responses_.progress(max_packets, outbox, data, [this] {
        gap_.end_past_repeat(expected_psn_);
        return ResponseQueue::AethState{acknowledged_end(), msn_, credits()};
    });
}

bool RcResponder::progress_in_error(std::uint32_t max_packets, Outbox& outbox) {
    if (!responses_.nak_pending() && !final_ack_pending_) {
        responses_.reset();
        return false;
    }
    const bool more = progress(max_packets, outbox, outbox);
    final_ack_pending_ = final_ack_pending_ && !responses_.idle();
    return more;
}

// XRC (annex A14): each request names an SRQ of the target's domain. SENDs take receives from it, and its PD,
// for the target has none, is the one that R_Keys have to belong to. Returns whether it names
// one, the same as the rest of its message.
bool RcResponder::find_srq(const wire::PacketHeader& header) {
    if (common_.config.xrc_srqs == nullptr) [[likely]] {
        return true;
    }
    srq_ = common_.config.xrc_srqs->find(header.xrc_srq);
    if (srq_ == nullptr || (message_ != Message::kNone && header.xrc_srq != message_srq_)) {
        return false;
    }
    message_srq_ = header.xrc_srq;
    pd_ = srq_->identity().pd;
    return true;
}

// IBA 9.7.5.1.5: SEND and WRITE are acknowledged again, READ is executed again, atomics are replayed.
void RcResponder::handle_duplicate(const wire::PacketView& packet, const wire::OpcodeInfo& info) {
    ++common_.config.counters->duplicate_request;
    const wire::PacketHeader& header = packet.header;
    if (gap_.is_repeating(expected_psn_)) {
        on_repeated_request(header.psn, header.ack_req);
    }
    RcResponse response;
    response.psn = header.psn;
    if ((info.flags & wire::kIsRead) != 0) {
        const wire::Reth& reth = header.reth;
        const bool is_xrc = common_.config.xrc_srqs != nullptr;
        const SharedRecvQueue* srq = is_xrc ? common_.config.xrc_srqs->find(header.xrc_srq) : nullptr;
        if (is_xrc && srq == nullptr) {
            return;
        }
        MemoryPiece piece;
        response.va_or_original = reth.va;
        response.rkey = reth.rkey;
        response.pd = is_xrc ? srq->identity().pd : common_.config.pd;
        response.left_bytes = reth.dma_length;
        response.last_psn = header.psn + (common_.packets_of(reth.dma_length) - 1);
        const bool was_requested = reth.dma_length <= kMaxMessageBytes && response.last_psn < expected_psn_;
        const bool is_allowed =
            (common_.attr.access_flags & kAccessRemoteRead) != 0 &&
            (reth.dma_length == 0 ||
             common_.config.keys->resolve_remote(reth.rkey, KeyUser{response.pd, common_.config.qp_num},
                                                 kAccessRemoteRead, reth.va, reth.dma_length,
                                                 piece) == KeyTable::Verdict::kOk);
        if (was_requested && is_allowed) {
            responses_.add_duplicate(response);
        }
        return;
    }
    if ((info.flags & wire::kIsAtomic) != 0) {
        const auto saved = replay_cache_.find(header.psn, common_.attr.max_dest_rd_atomic);
        if (saved) {
            response.is_atomic = true;
            response.va_or_original = *saved;
            response.last_psn = header.psn;
            responses_.add_duplicate(response);
        }
        return;
    }
    if ((info.flags & (wire::kIsAtomicWrite | wire::kIsFlush)) != 0) {
        // Not executed again (IBA annex A19): what a FLUSH stands for has happened, whatever came after it.
        response.last_psn = header.psn;
        responses_.add_duplicate(response);
        return;
    }
    if ((info.flags & (wire::kIsSend | wire::kIsWrite)) != 0) {
        responses_.schedule_ack();
    }
}

// First, Middle, Last and Only have to follow each other, with a full path MTU in all but the last packet
// (IBA 9.7.4.1.2, 9.7.4.1.6).
bool RcResponder::sequence_ok(const wire::PacketView& packet, const wire::OpcodeInfo& info) const {
    const bool starts = (info.flags & wire::kStarts) != 0;
    const bool ends = (info.flags & wire::kEnds) != 0;
    const Message message = (info.flags & wire::kIsSend) != 0    ? Message::kSend
                            : (info.flags & wire::kIsWrite) != 0 ? Message::kWrite
                                                                 : Message::kNone;
    if (message_ != (starts ? Message::kNone : message)) {
        return false;
    }
    const std::size_t bytes = packet.payload.size();
    if (!ends) {
        return bytes == common_.mtu_bytes;
    }
    return bytes <= common_.mtu_bytes && (starts || bytes != 0);
}

// Takes the receive WQE that the message fills. Returns whether there is one; else an RNR NAK goes out, or
// the QP fails if the WQE is malformed.
bool RcResponder::consume_recv_wqe(Outbox& outbox) {
    if (receive_.in_use) {
        return true;
    }
    const Fetch fetch = receive_.peek(common_, srq_, outbox);
    if (fetch == Fetch::kEmpty) {
        ++common_.config.counters->out_of_buffer;
        ++common_.config.counters->send_rnr_err;
        responses_.schedule_nak(static_cast<std::uint8_t>(wire::kSyndromeRnrNak | common_.attr.min_rnr_timer),
                                expected_psn_);
        gap_.state = RequestGap::State::kRnrNakSent;
        gap_.highest_early_psn = expected_psn_;
        return false;
    }
    if (fetch == Fetch::kMalformed && srq_ != nullptr) {
        refuse({wire::kNakRemoteOperationalError, WcStatus::kLocQpOpErr, AsyncEventType::kQpFatal}, outbox);
        return false;
    }
    receive_.consume(common_, outbox);
    if (fetch == Fetch::kMalformed) {
        fail_receive(WcStatus::kLocQpOpErr, wire::kNakRemoteOperationalError, outbox);
        return false;
    }
    return true;
}

void RcResponder::handle_send(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox) {
    const bool ends = (info.flags & wire::kEnds) != 0;
    if (!consume_recv_wqe(outbox)) {
        return;
    }
    if ((info.flags & wire::kStarts) != 0) {
        received_bytes_ = 0;
    }
    const std::uint64_t total = std::uint64_t{received_bytes_} + packet.payload.size();
    if (total > receive_.work.length_bytes || total > kMaxMessageBytes) {
        ++common_.config.counters->resp_local_length_error;
        fail_receive(WcStatus::kLocLenErr, wire::kNakInvalidRequest, outbox);
        return;
    }
    if (!scatter(*common_.config.keys, receive_.pd(common_), receive_.list(), received_bytes_,
                 packet.payload)) {
        fail_receive(WcStatus::kLocProtErr, wire::kNakRemoteOperationalError, outbox);
        return;
    }
    received_bytes_ = static_cast<std::uint32_t>(total);
    // Before the receive completes, so that the application, once it knows, is safe from the key (IBA
    // 9.4.1.1.3); after all else that could refuse the packet.
    if ((info.headers & wire::kHasIeth) != 0 &&
        !common_.config.keys->invalidate(packet.header.ieth_rkey, key_user())) [[unlikely]] {
        fail_invalidation(packet, info, outbox);
        return;
    }
    message_ = ends ? Message::kNone : Message::kSend;
    if (ends) {
        complete_receive(packet, info, WcOpcode::kRecv, received_bytes_, outbox);
    }
    finish_packet(packet, info);
}

// Checks a WRITE's RETH as a whole (IBA 9.7.4.1.4-7). Returns whether it is allowed; if not, it was refused.
bool RcResponder::begin_write(const wire::Reth& reth, const wire::OpcodeInfo& info, Outbox& outbox) {
    const bool is_only = (info.flags & wire::kEnds) != 0;
    if (reth.dma_length > kMaxMessageBytes) {
        refuse(kInvalidRequest, outbox);
        return false;
    }
    MemoryPiece piece;
    // For one packet the check that finds the piece is enough; a longer WRITE must not begin what it may not
    // end. No key is looked at for zero bytes.
    if (!is_only && common_.config.keys->resolve_remote(reth.rkey, key_user(), kAccessRemoteWrite, reth.va,
                                                        reth.dma_length, piece) != KeyTable::Verdict::kOk) {
        refuse(kAccessError, outbox);
        return false;
    }
    write_va_ = reth.va;
    write_rkey_ = reth.rkey;
    write_left_bytes_ = reth.dma_length;
    received_bytes_ = reth.dma_length;
    ++common_.config.counters->rx_write_requests;
    return true;
}

void RcResponder::handle_write(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox) {
    const bool ends = (info.flags & wire::kEnds) != 0;
    const bool has_imm = (info.headers & wire::kHasImm) != 0;
    // Whether WRITEs are served at all comes before the search for a receive (IBA 9.7.4.1.3, 9.7.4.1.4).
    if ((info.flags & wire::kStarts) != 0 && (common_.attr.access_flags & kAccessRemoteWrite) == 0) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    // Nothing may change before it is sure that the packet will be taken: after an RNR NAK it comes again.
    if (has_imm && !consume_recv_wqe(outbox)) {
        return;
    }
    if ((info.flags & wire::kStarts) != 0 && !begin_write(packet.header.reth, info, outbox)) {
        return;
    }
    const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
    if (ends ? bytes != write_left_bytes_ : bytes >= write_left_bytes_) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    if (bytes != 0) {
        MemoryPiece piece;
        if (common_.config.keys->resolve_remote(write_rkey_, key_user(), kAccessRemoteWrite, write_va_, bytes,
                                                piece) != KeyTable::Verdict::kOk) {
            refuse(kAccessError, outbox);
            return;
        }
        if (!write_piece(piece, packet.payload.data())) {
            refuse({wire::kNakRemoteOperationalError, WcStatus::kLocProtErr, AsyncEventType::kQpFatal},
                   outbox);
            return;
        }
    }
    write_va_ += bytes;
    write_left_bytes_ -= bytes;
    message_ = ends ? Message::kNone : Message::kWrite;
    if (has_imm) {
        complete_receive(packet, info, WcOpcode::kRecvRdmaWithImm, received_bytes_, outbox);
    }
    finish_packet(packet, info);
}

void RcResponder::handle_read(const wire::PacketView& packet, Outbox& outbox) {
    const wire::Reth& reth = packet.header.reth;
    if ((common_.attr.access_flags & kAccessRemoteRead) == 0 || reth.dma_length > kMaxMessageBytes ||
        responses_.new_pending() >= common_.attr.max_dest_rd_atomic) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    MemoryPiece piece;
    if (reth.dma_length != 0 &&
        common_.config.keys->resolve_remote(reth.rkey, key_user(), kAccessRemoteRead, reth.va,
                                            reth.dma_length, piece) != KeyTable::Verdict::kOk) {
        refuse(kAccessError, outbox);
        return;
    }
    const std::uint32_t packets = common_.packets_of(reth.dma_length);
    RcResponse response;
    response.va_or_original = reth.va;
    response.rkey = reth.rkey;
    response.pd = pd_;
    response.left_bytes = reth.dma_length;
    response.psn = expected_psn_;
    response.last_psn = expected_psn_ + (packets - 1);
    responses_.add(response);
    expected_psn_ = expected_psn_ + packets;
    msn_ = (msn_ + 1) & Psn::kMask;
    ++common_.config.counters->rx_read_requests;
}

void RcResponder::handle_atomic(const wire::PacketView& packet, Outbox& outbox) {
    const wire::AtomicEth& request = packet.header.atomic;
    if ((common_.attr.access_flags & kAccessRemoteAtomic) == 0 || request.va % sizeof(std::uint64_t) != 0 ||
        responses_.new_pending() >= common_.attr.max_dest_rd_atomic) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    MemoryPiece piece;
    if (common_.config.keys->resolve_remote(request.rkey, key_user(), kAccessRemoteAtomic, request.va,
                                            sizeof(std::uint64_t), piece) != KeyTable::Verdict::kOk) {
        refuse(kAccessError, outbox);
        return;
    }
    // An iova chosen by the application may be aligned where the memory is not.
    const auto address = piece.direct != nullptr ? reinterpret_cast<std::uintptr_t>(piece.direct) : piece.va;
    if (address % sizeof(std::uint64_t) != 0) {
        refuse(kInvalidRequest, outbox);
        return;
    }
    const bool is_swap = (packet.header.opcode & wire::kOperationMask) == wire::kCompareSwap;
    const auto original = execute_atomic(piece, {is_swap, request.swap_or_add, request.compare});
    if (!original) {
        refuse({wire::kNakRemoteOperationalError, WcStatus::kLocProtErr, AsyncEventType::kQpFatal}, outbox);
        return;
    }
    replay_cache_.save(expected_psn_, *original);
    RcResponse response;
    response.va_or_original = *original;
    response.psn = expected_psn_;
    response.last_psn = expected_psn_;
    response.is_atomic = true;
    responses_.add(response);
    ++expected_psn_;
    msn_ = (msn_ + 1) & Psn::kMask;
    ++common_.config.counters->rx_atomic_requests;
}

void RcResponder::complete_receive(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                   WcOpcode opcode, std::uint32_t byte_len, Outbox& outbox) {
    urnic::complete_receive(common_, receive_, packet.header, info,
                            {.opcode = opcode, .byte_len = byte_len, .src_qp = common_.attr.dest_qp_num},
                            outbox);
}

// The packet was executed.
void RcResponder::finish_packet(const wire::PacketView& packet, const wire::OpcodeInfo& info) {
    ++expected_psn_;
    if ((info.flags & wire::kEnds) != 0) {
        msn_ = (msn_ + 1) & Psn::kMask;
    }
    if (packet.header.ack_req) {
        responses_.schedule_ack();
    }
}

// IBA 9.9.6.3, class J: the message as such was good and lies in its receive, and what failed came after it.
// It is acknowledged like any other; the receive says what happened, and the QP ends.
void RcResponder::fail_invalidation(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                    Outbox& outbox) {
    if (common_.config.nak_failed_invalidation) {
        refuse({wire::kNakRemoteAccessError, WcStatus::kRemAccessErr, AsyncEventType::kQpAccessErr}, outbox);
        return;
    }
    ++common_.config.counters->resp_remote_access_errors;
    finish_packet(packet, info);
    final_ack_pending_ = packet.header.ack_req;
    complete_receive_error(common_, receive_, WcStatus::kRemInvReqErr, outbox);
    common_.enter_error();
}

// The receive WQE that was taken is at fault, or too small.
void RcResponder::fail_receive(WcStatus status, std::uint8_t syndrome, Outbox& outbox) {
    responses_.schedule_nak(syndrome, expected_psn_);
    complete_receive_error(common_, receive_, status, outbox);
    common_.enter_error();
}

void RcResponder::refuse(const Refusal& refusal, Outbox& outbox) {
    if (refusal.syndrome == wire::kNakRemoteAccessError) {
        ++common_.config.counters->resp_remote_access_errors;
    }
    if (receive_.in_use) {
        fail_receive(refusal.receive_status, refusal.syndrome, outbox);
        return;
    }
    responses_.schedule_nak(refusal.syndrome, expected_psn_);
    outbox.event(common_.self, refusal.event);
    common_.enter_error();
}

bool RcResponder::flush(std::uint32_t most, Outbox& outbox) {
    return flush_receives(common_, receive_, most, outbox);
}

// Receive WQEs that the peer may count on, the one in use among them. Nobody may count on those of an SRQ,
// which others take too: the code for that is the one for no limit (IBA 9.7.7.2). Each is looked at once,
// when it is first seen posted, and only a bounded number for one acknowledgement.
std::uint8_t RcResponder::credits() {
    if (common_.has_srq()) {
        return wire::kCreditsUnlimited;
    }
    const RecvQueue& rq = common_.config.rq;
    if (static_cast<std::int32_t>(receives_seen_ - rq.next()) < 0) {
        receives_seen_ = rq.next();
    }
    for (std::uint32_t looked = 0; looked < kMaxInFlightWqes && rq.has(receives_seen_); ++looked) {
        ++receives_seen_;
    }
    return credit_code(receives_seen_ - rq.next() + (receive_.in_use ? 1 : 0));
}

}  // namespace urnic
