#include "rnic/qp/unreliable/uc_responder.h"

#include "rnic/qp/completions.h"
#include "rnic/qp/limits.h"
#include "rnic/qp/sge_list.h"

namespace urnic {

void UcResponder::reset(Psn first_psn) {
    expected_psn_ = first_psn;
    message_ = Message::kNone;
    receive_.in_use = false;
    refused_writes_ = 0;
}

// A gap ends the message in progress; the next one begins with the next First or Only, and what comes before
// it is dropped (IBA 9.8.2.2). An older PSN is a gap like any other: UC knows no duplicates.
void UcResponder::handle_request(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                 Outbox& outbox) {
    Counters& counters = *common_.config.counters;
    if (packet.header.psn != expected_psn_) [[unlikely]] {
        ++counters.out_of_sequence;
        message_ = Message::kNone;
    }
    expected_psn_ = packet.header.psn + 1;
    if ((info.flags & wire::kStarts) != 0) {
        message_ = Message::kNone;  // of the one before it the end is missing
    }
    if (!sequence_ok(packet, info)) {
        message_ = Message::kNone;
        ++counters.drop_uc_message;
        return;
    }
    const bool is_send = (info.flags & wire::kIsSend) != 0;
    const bool carried_out = is_send ? handle_send(packet, info, outbox) : handle_write(packet, info, outbox);
    const bool is_unfinished = carried_out && (info.flags & wire::kEnds) == 0;
    message_ = is_unfinished ? (is_send ? Message::kSend : Message::kWrite) : Message::kNone;
    if (!carried_out) {
        ++counters.drop_uc_message;
    }
}

// First, Middle, Last and Only have to follow each other, with a full path MTU in all but the last packet
// (IBA 9.8.2.2).
bool UcResponder::sequence_ok(const wire::PacketView& packet, const wire::OpcodeInfo& info) const {
    const bool starts = (info.flags & wire::kStarts) != 0;
    const bool ends = (info.flags & wire::kEnds) != 0;
    const Message message = (info.flags & wire::kIsSend) != 0 ? Message::kSend : Message::kWrite;
    if (!starts && message_ != message) {
        return false;
    }
    const std::size_t bytes = packet.payload.size();
    return ends ? bytes <= common_.mtu_bytes && (starts || bytes != 0) : bytes == common_.mtu_bytes;
}

// Takes the receive WQE that the message fills. Without one the message is lost (IBA table 58, class D).
bool UcResponder::consume_recv_wqe(Outbox& outbox) {
    if (receive_.in_use) {
        return true;
    }
    switch (receive_.peek(common_, common_.config.srq, outbox)) {
        case Fetch::kEmpty:
            ++common_.config.counters->out_of_buffer;
            return false;
        case Fetch::kMalformed:
            fail_malformed_receive(common_, receive_, outbox);
            return false;
        case Fetch::kOk:
            break;
    }
    receive_.consume(common_, outbox);
    return true;
}

bool UcResponder::handle_send(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox) {
    if ((info.flags & wire::kStarts) != 0) {
        received_bytes_ = 0;
        if (!consume_recv_wqe(outbox)) {
            return false;
        }
    }
    const std::uint64_t total = std::uint64_t{received_bytes_} + packet.payload.size();
    // The receive WQE stays for the next message (class D).
    if (total > receive_.work.length_bytes || total > kMaxMessageBytes) {
        ++common_.config.counters->resp_local_length_error;
        return false;
    }
    if (!scatter(*common_.config.keys, receive_.pd(common_), receive_.list(), received_bytes_,
                 packet.payload)) {
        complete_receive_error(common_, receive_, WcStatus::kLocProtErr, outbox);
        common_.enter_error();
        return false;
    }
    received_bytes_ = static_cast<std::uint32_t>(total);
    if ((info.flags & wire::kEnds) != 0) {
        complete(packet, info, WcOpcode::kRecv, outbox);
    }
    return true;
}

void UcResponder::refuse_write(Outbox& outbox) {
    ++common_.config.counters->resp_remote_access_errors;
    if (++refused_writes_ == kMaxRefusedWrites) {
        outbox.event(common_.self, AsyncEventType::kQpAccessErr);
        common_.enter_error();
    }
}

// Checks a WRITE's RETH as a whole, so that nothing is written of what may not be (IBA 9.8.2.2).
bool UcResponder::begin_write(const wire::Reth& reth, Outbox& outbox) {
    MemoryPiece piece;
    const bool is_allowed =
        (common_.attr.access_flags & kAccessRemoteWrite) != 0 && reth.dma_length <= kMaxMessageBytes &&
        (reth.dma_length == 0 ||
         common_.config.keys->resolve_remote(reth.rkey, key_user(common_), kAccessRemoteWrite, reth.va,
                                             reth.dma_length, piece) == KeyTable::Verdict::kOk);
    if (!is_allowed) [[unlikely]] {
        refuse_write(outbox);
        return false;
    }
    write_va_ = reth.va;
    write_rkey_ = reth.rkey;
    write_left_bytes_ = reth.dma_length;
    received_bytes_ = reth.dma_length;
    ++common_.config.counters->rx_write_requests;
    return true;
}

bool UcResponder::handle_write(const wire::PacketView& packet, const wire::OpcodeInfo& info, Outbox& outbox) {
    const bool ends = (info.flags & wire::kEnds) != 0;
    if ((info.flags & wire::kStarts) != 0 && !begin_write(packet.header.reth, outbox)) {
        return false;
    }
    const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
    if (ends ? bytes != write_left_bytes_ : bytes >= write_left_bytes_) {
        return false;
    }
    const bool has_imm = (info.headers & wire::kHasImm) != 0;
    if (has_imm && !consume_recv_wqe(outbox)) {
        return false;
    }
    if (bytes != 0) {
        // The region may have ended since the first packet.
        MemoryPiece piece;
        if (common_.config.keys->resolve_remote(write_rkey_, key_user(common_), kAccessRemoteWrite, write_va_,
                                                bytes, piece) != KeyTable::Verdict::kOk) {
            refuse_write(outbox);
            return false;
        }
        if (!write_piece(piece, packet.payload.data())) {
            outbox.event(common_.self, AsyncEventType::kQpFatal);
            common_.enter_error();
            return false;
        }
    }
    write_va_ += bytes;
    write_left_bytes_ -= bytes;
    if (has_imm) {
        complete(packet, info, WcOpcode::kRecvRdmaWithImm, outbox);
    }
    return true;
}

void UcResponder::complete(const wire::PacketView& packet, const wire::OpcodeInfo& info, WcOpcode opcode,
                           Outbox& outbox) {
    complete_receive(common_, receive_, packet.header, info,
                     {.opcode = opcode, .byte_len = received_bytes_, .src_qp = common_.attr.dest_qp_num},
                     outbox);
}

}  // namespace urnic
