// What comes back for a Call: Replies, errors, other versions.
#include <algorithm>

#include "ulp/rpcrdma/engine/requester.h"

namespace urnic::rpcrdma {

void Requester::on_reply(const Header& header, std::span<const std::byte> payload,
                         std::uint32_t invalidated) {
    Slot* slot = find_sent(header.xid);
    if (slot == nullptr) {
        ++link_.counters.unknown_xids;
        if (invalidated != 0) {
            link_.close(CloseReason::kWrongInvalidation);
        }
        return;
    }
    on_grant(header.credits);
    if (slot->state != State::kSent) {
        // Its deadline came first: the late Reply gives the credit back. Its handles are withdrawn, or being
        // so.
        ++link_.counters.unknown_xids;
        outstanding_xids_.erase(header.xid);
        return_credit();
        slot->is_late = false;
        if (slot->state == State::kAbandoned) {
            release(*slot);
        }
        send_queued();
        return;
    }
    const auto end = slot->exposures.begin() + static_cast<std::ptrdiff_t>(slot->exposure_count);
    const bool is_offered = std::any_of(slot->exposures.begin(), end, [&](const Exposure& exposure) {
        return exposure.segment.handle == invalidated && exposure.can_remote_invalidate;
    });
    // Version 2 names the one handle; in version 1 it is any of the Call's (RFC 8797, 4.1.1).
    const bool is_right = is_offered && (header.version == kVersion1 || invalidated == slot->inv_handle);
    if (invalidated != 0 && !is_right) {
        link_.close(CloseReason::kWrongInvalidation);
        return;
    }
    slot->invalidated = invalidated;
    outstanding_xids_.erase(header.xid);
    return_credit();
    const CallStatus status = take_reply(*slot, header, payload);
    ++(status == CallStatus::kBadReply ? link_.counters.bad_replies : link_.counters.replies_received);
    withdraw(*slot, status, AfterWithdraw::kComplete);
    send_queued();
}

CallStatus Requester::take_reply(Slot& slot, const Header& header, std::span<const std::byte> payload) {
    std::uint64_t in_chunk = 0;
    if (!header.chunks.reads().empty() || header.chunks.overflowed() || !take_results(slot, header) ||
        !take_reply_chunk(slot, header, in_chunk)) {
        return CallStatus::kBadReply;
    }
    Completion& completion = slot.completion;
    if (header.proc == Proc::kNomsg) {
        if (!payload.empty() || in_chunk < 8) {
            return CallStatus::kBadReply;
        }
        completion.reply = slot.reply_chunk;
        completion.reply_octets = in_chunk;
        slot.reply_chunk = {};
        return CallStatus::kReplied;
    }
    if (in_chunk != 0 || payload.size() < 8) {
        return CallStatus::kBadReply;
    }
    completion.reply = link_.outbox.allocate(payload.size());
    if (!completion.reply.is_valid()) {
        return CallStatus::kNoMemory;
    }
    std::copy(payload.begin(), payload.end(), completion.reply.octets.begin());
    completion.reply_octets = payload.size();
    return CallStatus::kReplied;
}

/// The Write list of a Reply is the Call's with the octets that were written; a responder that used none may
/// leave it out.
bool Requester::take_results(Slot& slot, const Header& header) {
    const std::size_t count = header.chunks.write_chunk_count();
    if (count == 0) {
        return true;
    }
    if (count != slot.write_count) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const std::span<const Segment> chunk = header.chunks.write_chunk(i);
        const Segment& offered = slot.exposures[slot.first_write + i].segment;
        if (chunk.empty()) {
            continue;  // an empty chunk is an unused one
        }
        if (chunk.size() != 1 || chunk[0].handle != offered.handle || chunk[0].offset != offered.offset ||
            chunk[0].length > offered.length) {
            return false;
        }
        slot.completion.result_octets[i] = chunk[0].length;
    }
    return true;
}

bool Requester::take_reply_chunk(Slot& slot, const Header& header, std::uint64_t& octets) const {
    const std::span<const Segment> chunk = header.chunks.reply_chunk();
    octets = 0;
    if (chunk.empty()) {
        return true;
    }
    if (slot.plan.reply_chunk_octets == 0 || chunk.size() != 1) {
        return false;
    }
    const Segment& offered = slot.exposures[slot.first_write + slot.write_count].segment;
    octets = chunk[0].length;
    return chunk[0].handle == offered.handle && chunk[0].offset == offered.offset &&
           chunk[0].length <= offered.length;
}

void Requester::on_bad_reply(std::uint32_t xid) {
    Slot* slot = find_sent(xid);
    if (slot == nullptr || slot->state != State::kSent) {
        return;
    }
    ++link_.counters.bad_replies;
    outstanding_xids_.erase(xid);
    return_credit();
    withdraw(*slot, CallStatus::kBadReply, AfterWithdraw::kComplete);
    send_queued();
}

bool Requester::on_error(const Header& header) {
    Slot* slot = find_sent(header.xid);
    if (slot == nullptr) {
        return false;
    }
    ++link_.counters.errors_received;
    if (has_grant_) {
        on_grant(header.credits);
    }
    outstanding_xids_.erase(header.xid);
    return_credit();
    if (slot->state != State::kSent) {
        slot->is_late = false;
        if (slot->state == State::kAbandoned) {
            release(*slot);
        }
    } else if (should_send_again(*slot, header.error)) {
        ++slot->completion.resent;
        withdraw(*slot, CallStatus::kDisconnected, AfterWithdraw::kSendAgain);
    } else {
        slot->completion.error = header.error;
        withdraw(*slot, CallStatus::kRemoteError, AfterWithdraw::kComplete);
    }
    send_queued();
    return true;
}

/// Whether the table of section 7.2.4 lets the Call be sent again in another form; each reason once.
bool Requester::should_send_again(Slot& slot, const ErrorBody& error) const {
    PlanLimits& refused = slot.refused;
    switch (error.code) {
        case ErrorCode::kReadChunks:
            // A Position-Zero chunk that was refused ends the RPC.
            if (!slot.has_read_items) {
                return false;
            }
            refused.has_read_chunks = false;
            return true;
        case ErrorCode::kWriteChunks:
            if (slot.write_count == 0) {
                return false;
            }
            refused.has_write_chunks = false;
            return true;
        case ErrorCode::kReplyResource: {
            const bool has_reason =
                error.first > slot.plan.reply_chunk_octets && refused.least_reply_chunk == 0;
            if (has_reason && error.first <= link_.config.limits.max_reply_octets) {
                refused.least_reply_chunk = error.first;
                return true;
            }
            return false;
        }
        default:
            return false;
    }
}

bool Requester::send_again(std::uint32_t xid) {
    Slot* slot = find_sent(xid);
    if (slot == nullptr) {
        return false;
    }
    outstanding_xids_.erase(xid);
    return_credit();
    if (slot->state == State::kSent) {
        withdraw(*slot, CallStatus::kDisconnected, AfterWithdraw::kSendAgain);
    } else {
        slot->is_late = false;
        if (slot->state == State::kAbandoned) {
            release(*slot);
        }
    }
    send_queued();
    return true;
}

void Requester::on_version_refused(std::uint32_t xid) {
    Slot* slot = find_sent(xid);
    if (slot != nullptr && slot->state == State::kSent) {
        outstanding_xids_.erase(xid);
        return_credit();
        withdraw(*slot, CallStatus::kVersionRefused, AfterWithdraw::kComplete);
    }
}

}  // namespace urnic::rpcrdma
