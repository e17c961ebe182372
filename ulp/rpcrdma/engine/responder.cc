#include "ulp/rpcrdma/engine/responder.h"

#include <algorithm>

#include "ulp/rpcrdma/codec/xdr.h"
#include "ulp/rpcrdma/engine/message_pieces.h"

namespace urnic::rpcrdma {

namespace {

constexpr std::uint32_t kGenerationBits = 16;

/// Whether an RPC message begins with that XID and CALL (RFC 5531, section 9).
bool is_call(std::span<const std::byte> message, std::uint32_t xid) {
    XdrReader reader(message);
    return reader.u32() == xid && reader.u32() == static_cast<std::uint32_t>(Direction::kCall) &&
           !reader.failed();
}

}  // namespace

// --- slots

std::uint32_t Responder::id_of(const Slot& slot) const {
    return static_cast<std::uint32_t>(slot.generation) << kGenerationBits | slot.index;
}

Responder::Slot* Responder::slot_of(std::uint32_t id, State state) {
    const std::uint32_t index = id & 0xFFFFU;
    if (index >= slots_.size() || slots_[index].generation != id >> kGenerationBits ||
        slots_[index].state != state) {
        return nullptr;
    }
    return &slots_[index];
}

Responder::Slot& Responder::take_slot() {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<std::uint16_t>(slots_.size()));
        slots_.emplace_back().index = free_slots_.back();
    }
    Slot& slot = slots_[free_slots_.back()];
    free_slots_.pop_back();
    ++in_progress_;
    return slot;
}

void Responder::release(Slot& slot) {
    in_progress_ -= slot.state == State::kReading || slot.state == State::kExecuting ? 1 : 0;
    if (slot.call.is_valid()) {
        link_.outbox.free(slot.call);
        slot.call = {};
    }
    slot.state = State::kFree;
    ++slot.generation;
    free_slots_.push_back(slot.index);
}

// --- a Call arrives

void Responder::on_call(const Header& header, std::span<const std::byte> payload) {
    if (!is_acceptable(header, payload)) {
        return;
    }
    std::uint64_t octets = 0;
    const CallFault fault = check_call(header, payload.size(), link_.config.limits, octets);
    if (fault != CallFault::kNone) {
        refuse(header, fault);
        return;
    }
    const Buffer call = link_.outbox.allocate(octets);
    if (!call.is_valid()) {
        link_.send_error(header.xid, header.version, {ErrorCode::kSystem});
        return;
    }
    Slot& slot = take_slot();
    slot.state = State::kReading;
    slot.has_failed = false;
    slot.xid = header.xid;
    slot.version = header.version;
    slot.invalidate = handle_to_invalidate(header);
    slot.call = call;
    slot.call_octets = octets;
    slot.chunks = header.chunks;
    slot.reads_left = assemble_call(header, payload, call.octets.first(octets), id_of(slot), link_.outbox);
    ++link_.counters.calls_received;
    if (slot.reads_left == 0) {
        execute(slot);
    }
}

bool Responder::is_acceptable(const Header& header, std::span<const std::byte> payload) {
    if (in_progress_ >= link_.config.granted_credits) {
        link_.close(CloseReason::kCreditsExceeded);
        return false;
    }
    const bool is_backward_refused =
        !is_forward_ && (link_.config.backward == BackwardSupport::kNone ||
                         (link_.config.backward == BackwardSupport::kInline && !header.chunks.is_empty()));
    if (is_backward_refused) {
        link_.send_error(header.xid, header.version, {ErrorCode::kSystem});
        return false;
    }
    const bool has_wrong_handle = header.inv_handle != 0 && !header.chunks.has_handle(header.inv_handle);
    // Behind MSG is the RPC Call of that XID (draft, 7.2.1 and 7.2.2), at least as far as its first item in a
    // chunk.
    if (has_wrong_handle || (header.proc == Proc::kMsg && !is_call(payload, header.xid))) {
        ++link_.counters.bad_messages;
        link_.send_error(header.xid, header.version, {ErrorCode::kBadXdr});
        return false;
    }
    return true;
}

/// Version 2 names the handle; in version 1 it is any of the Call's, if the private data allows (RFC
/// 8797, 4.1.1).
std::uint32_t Responder::handle_to_invalidate(const Header& header) const {
    if (!link_.config.can_send_invalidation) {
        return 0;
    }
    if (header.version == kVersion1) {
        return link_.can_invalidate_at_peer() ? header.chunks.first_handle() : 0;
    }
    return header.inv_handle;
}

void Responder::refuse(const Header& header, CallFault fault) {
    const Limits& limits = link_.config.limits;
    ErrorBody error;
    switch (fault) {
        case CallFault::kNone:
        case CallFault::kTooLong:
            error = {ErrorCode::kSystem};
            break;
        case CallFault::kBadXdr:
            ++link_.counters.bad_messages;
            error = {ErrorCode::kBadXdr};
            break;
        case CallFault::kReadChunks:
            error = {ErrorCode::kReadChunks, limits.max_read_chunks};
            break;
        case CallFault::kWriteChunks:
            error = {ErrorCode::kWriteChunks,
                     std::min<std::uint32_t>(limits.max_write_chunks, kMaxWriteChunks)};
            break;
        case CallFault::kNoWriteChunks:
            error = {ErrorCode::kReplyResource};
            break;
        case CallFault::kSegments:
            error = {ErrorCode::kSegments, limits.max_segments};
            break;
    }
    link_.send_error(header.xid, header.version, error);
}

void Responder::on_read(std::uint32_t call, bool ok) {
    Slot* slot = slot_of(call, State::kReading);
    if (slot == nullptr) {
        return;
    }
    slot->has_failed = slot->has_failed || !ok;
    if (--slot->reads_left != 0) {
        return;
    }
    if (slot->has_failed) {
        release(*slot);
        link_.close(CloseReason::kReadFailed);
        return;
    }
    link_.counters.read_chunk_octets += slot->call_octets;
    if (!is_call(slot->call.octets.first(slot->call_octets), slot->xid)) {
        ++link_.counters.bad_messages;
        link_.send_error(slot->xid, slot->version, {ErrorCode::kBadXdr});
        release(*slot);
        return;
    }
    execute(*slot);
}

void Responder::execute(Slot& slot) {
    slot.state = State::kExecuting;
    IncomingCall call;
    call.id = id_of(slot);
    call.xid = slot.xid;
    call.version = slot.version;
    call.call = slot.call;
    call.call_octets = slot.call_octets;
    call.write_chunks = static_cast<std::uint32_t>(slot.chunks.write_chunk_count());
    slot.call = {};
    link_.outbox.execute(call);
}

void Responder::drop(std::uint32_t call) {
    if (Slot* slot = slot_of(call, State::kExecuting); slot != nullptr) {
        release(*slot);
    }
}

// --- its Reply

ReplyStatus Responder::reply(std::uint32_t call, const RpcMessage& message) {
    Slot* slot = slot_of(call, State::kExecuting);
    if (slot == nullptr) {
        link_.outbox.replied(call);
        return ReplyStatus::kUnknown;
    }
    if (!message.is_valid() || message.full_octets() > link_.config.limits.max_reply_octets) {
        fail_reply(*slot, {ErrorCode::kSystem});
        return ReplyStatus::kRefused;
    }
    Header header;
    header.xid = slot->xid;
    header.version = slot->version;
    header.credits = link_.config.granted_credits;
    header.direction = Direction::kReply;
    if (!list_results(*slot, message, header)) {
        return ReplyStatus::kNoRoom;
    }
    const std::size_t chunks = slot->chunks.write_chunk_count();
    // Only what a Write chunk takes is left out; the rest stays in the stream.
    const auto is_inline = [&](std::size_t i) { return i >= chunks; };
    const MessagePieces pieces(message, kZeroOctets, is_inline);
    if (encoded_size(header) + pieces.octets() <= link_.send_limit()) {
        write_results(message, header);
        begin_replying(*slot, header, pieces.all());
        return ReplyStatus::kSent;
    }
    if (total_length(slot->chunks.reply_chunk()) < pieces.octets()) {
        fail_reply(*slot, {ErrorCode::kReplyResource, static_cast<std::uint32_t>(pieces.octets())});
        return ReplyStatus::kNoRoom;
    }
    const std::span<const std::byte> zeros = padding();
    if (zeros.empty()) {
        fail_reply(*slot, {ErrorCode::kSystem});
        return ReplyStatus::kRefused;
    }
    write_results(message, header);
    header.proc = Proc::kNomsg;
    write_reply_chunk(*slot, MessagePieces(message, zeros, is_inline).all(), header);
    begin_replying(*slot, header, {});
    return ReplyStatus::kSent;
}

/// All chunks and segments of the Call come back, with the octets that are written (draft, 7.2; RFC 8166,
/// section 4.3.2).
bool Responder::list_results(Slot& slot, const RpcMessage& message, Header& header) {
    for (std::size_t i = 0; i < slot.chunks.write_chunk_count(); ++i) {
        const std::span<const Segment> chunk = slot.chunks.write_chunk(i);
        std::size_t left = i < message.items.size() ? message.items[i].data.size() : 0;
        if (left > total_length(chunk)) {
            fail_reply(slot, {ErrorCode::kWriteResource, static_cast<std::uint32_t>(i + 1),
                              static_cast<std::uint32_t>(left)});
            return false;
        }
        header.chunks.begin_write_chunk();
        for (Segment segment : chunk) {
            segment.length = static_cast<std::uint32_t>(std::min<std::size_t>(segment.length, left));
            header.chunks.add_segment(segment);
            left -= segment.length;
        }
    }
    return true;
}

void Responder::write_results(const RpcMessage& message, const Header& header) {
    for (std::size_t i = 0; i < std::min(header.chunks.write_chunk_count(), message.items.size()); ++i) {
        std::span<const std::byte> data = message.items[i].data;
        for (const Segment& segment : header.chunks.write_chunk(i)) {
            if (segment.length != 0) {
                link_.outbox.write(data.first(segment.length), segment);
                link_.counters.write_chunk_octets += segment.length;
                data = data.subspan(segment.length);
            }
        }
    }
}

void Responder::write_reply_chunk(Slot& slot, std::span<const std::span<const std::byte>> pieces,
                                  Header& header) {
    header.chunks.begin_reply_chunk();
    std::size_t piece = 0;
    std::size_t used = 0;
    for (const Segment& segment : slot.chunks.reply_chunk()) {
        std::uint32_t written = 0;
        while (written < segment.length && piece < pieces.size()) {
            const auto octets = static_cast<std::uint32_t>(
                std::min<std::size_t>(segment.length - written, pieces[piece].size() - used));
            link_.outbox.write(pieces[piece].subspan(used, octets),
                               {segment.handle, octets, segment.offset + written});
            written += octets;
            used += octets;
            if (used == pieces[piece].size()) {
                ++piece;
                used = 0;
            }
        }
        link_.counters.write_chunk_octets += written;
        header.chunks.add_segment({segment.handle, written, segment.offset});
    }
}

std::span<const std::byte> Responder::padding() {
    if (!padding_.is_valid()) {
        padding_ = link_.outbox.allocate(kZeroOctets.size());
        if (padding_.is_valid()) {
            std::copy(kZeroOctets.begin(), kZeroOctets.end(), padding_.octets.begin());
        }
    }
    return padding_.is_valid() ? padding_.octets.first(kZeroOctets.size()) : std::span<const std::byte>();
}

void Responder::begin_replying(Slot& slot, const Header& header,
                               std::span<const std::span<const std::byte>> payload) {
    slot.state = State::kReplying;
    --in_progress_;
    ++link_.counters.replies_sent;
    // Tokens are not 0.
    link_.send(header, payload, slot.invalidate, std::uint64_t{id_of(slot)} + 1);
}

/// The program's memory is not used; the requester may send the Call again.
void Responder::fail_reply(Slot& slot, const ErrorBody& error) {
    link_.send_error(slot.xid, slot.version, error);
    const std::uint32_t id = id_of(slot);
    release(slot);
    link_.outbox.replied(id);
}

void Responder::on_sent(std::uint64_t token) {
    const auto id = static_cast<std::uint32_t>(token - 1);
    if (Slot* slot = slot_of(id, State::kReplying); slot != nullptr) {
        release(*slot);
        link_.outbox.replied(id);
    }
}

/// What executes continues: its reply() finds no slot.
void Responder::on_disconnected() {
    for (Slot& slot : slots_) {
        if (slot.state == State::kFree) {
            continue;
        }
        const bool was_replying = slot.state == State::kReplying;
        const std::uint32_t id = id_of(slot);
        release(slot);
        if (was_replying) {
            link_.outbox.replied(id);
        }
    }
    if (padding_.is_valid()) {
        link_.outbox.free(padding_);
        padding_ = {};
    }
}

}  // namespace urnic::rpcrdma
