#include "ulp/rpcrdma/engine/requester.h"

#include <algorithm>

#include "ulp/rpcrdma/engine/message_pieces.h"

namespace urnic::rpcrdma {

namespace {

constexpr std::uint32_t kIndexBits = 16;
constexpr std::uint64_t kMaxSegmentOctets = 0xFFFFFFFFU;

}  // namespace

// --- slots

std::uint32_t Requester::id_of(const Slot& slot) const {
    return static_cast<std::uint32_t>(slot.generation) << kIndexBits | slot.index;
}

Requester::Slot* Requester::slot_of(std::uint32_t id) {
    const std::uint32_t index = id & ((1U << kIndexBits) - 1);
    if (index >= slots_.size() || slots_[index].generation != id >> kIndexBits ||
        slots_[index].state == State::kFree) {
        return nullptr;
    }
    return &slots_[index];
}

Requester::Slot& Requester::take_slot() {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
        slots_.emplace_back().index = free_slots_.back();
    }
    Slot& slot = slots_[free_slots_.back()];
    free_slots_.pop_back();
    return slot;
}

void Requester::release(Slot& slot) {
    slot.state = State::kFree;
    ++slot.generation;
    free_slots_.push_back(slot.index);
}

Requester::Slot* Requester::find_sent(std::uint32_t xid) {
    const auto found = outstanding_xids_.find(xid);
    return found == outstanding_xids_.end() ? nullptr : slot_of(found->second);
}

// --- what the program asks

CallStatus Requester::check(const CallRequest& request) const {
    if (link_.is_closed) {
        return CallStatus::kDisconnected;
    }
    if (!request.message.is_valid() || request.results.size() > kMaxWriteChunks ||
        queue_.size() >= link_.config.max_queued_calls || request.message.full_octets() > kMaxSegmentOctets ||
        request.max_reply_octets > link_.config.limits.max_reply_octets) {
        return CallStatus::kTooLarge;
    }
    for (const std::span<std::byte>& result : request.results) {
        if (result.empty() || result.size() > kMaxSegmentOctets) {
            return CallStatus::kTooLarge;
        }
    }
    return has_outstanding(request.xid) ? CallStatus::kDuplicateXid : CallStatus::kReplied;
}

void Requester::call(const CallRequest& request, std::int64_t now_ns) {
    CallStatus status = check(request);
    if (status == CallStatus::kReplied && request.deadline_ns != 0 && request.deadline_ns <= now_ns) {
        status = CallStatus::kTimedOut;
    }
    if (status != CallStatus::kReplied) {
        refuse(request.token, status);
        return;
    }
    Slot& slot = take_slot();
    slot.state = State::kQueued;
    slot.is_late = false;
    slot.refused = {};
    slot.completion = {};
    slot.request = request;
    std::copy(request.message.items.begin(), request.message.items.end(), slot.items.begin());
    std::copy(request.results.begin(), request.results.end(), slot.results.begin());
    slot.request.message.items = std::span(slot.items).first(request.message.items.size());
    slot.request.results = std::span(slot.results).first(request.results.size());
    if (request.deadline_ns != 0 &&
        (earliest_deadline_ns_ == 0 || request.deadline_ns < earliest_deadline_ns_)) {
        earliest_deadline_ns_ = request.deadline_ns;
    }
    queue_.push_back(id_of(slot));
    send_queued();
}

void Requester::refuse(std::uint64_t token, CallStatus status) {
    Completion completion;
    completion.status = status;
    link_.outbox.complete(token, completion);
}

void Requester::on_timer(std::int64_t now_ns) {
    if (earliest_deadline_ns_ == 0 || now_ns < earliest_deadline_ns_) {
        return;
    }
    earliest_deadline_ns_ = 0;
    for (Slot& slot : slots_) {
        const std::int64_t deadline = slot.request.deadline_ns;
        if (deadline == 0 || (slot.state != State::kQueued && slot.state != State::kSent)) {
            continue;
        }
        if (deadline <= now_ns) {
            expire(slot);
        } else if (earliest_deadline_ns_ == 0 || deadline < earliest_deadline_ns_) {
            earliest_deadline_ns_ = deadline;
        }
    }
}

void Requester::expire(Slot& slot) {
    ++link_.counters.timeouts;
    if (slot.state == State::kQueued) {
        std::erase(queue_, id_of(slot));
        slot.completion.status = CallStatus::kTimedOut;
        finish(slot);
        return;
    }
    slot.is_late = true;
    withdraw(slot, CallStatus::kTimedOut, AfterWithdraw::kComplete);
}

// --- sending

bool Requester::may_send() const {
    if (link_.is_closed || (!is_forward_ && link_.version == 0)) {
        return false;
    }
    // One message until a grant is there, whatever the peer's version will be (draft, section 8).
    const std::uint32_t most =
        link_.version == 0 || !has_grant_ ? 1 : std::min(granted_, link_.config.wanted_credits);
    return outstanding_ < most;
}

void Requester::send_queued() {
    while (!queue_.empty() && may_send()) {
        Slot* slot = slot_of(queue_.front());
        queue_.pop_front();
        if (slot != nullptr) {
            transmit(*slot);
        }
    }
}

void Requester::transmit(Slot& slot) {
    const bool tries_2 = (link_.config.versions & 1U << kVersion2) != 0;
    Header header;
    header.xid = slot.request.xid;
    header.version = link_.version != 0 ? link_.version : tries_2 ? kVersion2 : kVersion1;
    header.credits = link_.config.wanted_credits;
    header.direction = Direction::kCall;
    slot.exposure_count = 0;
    slot.write_count = 0;
    slot.has_read_items = false;
    slot.inv_handle = 0;
    slot.invalidated = 0;
    PlanLimits limits = slot.refused;
    limits.version = header.version;
    limits.send_limit = link_.send_limit();
    limits.receive_limit = link_.receive_limit();
    slot.plan = plan_call(slot.request, limits);
    const CallStatus status =
        has_outstanding(header.xid) ? CallStatus::kDuplicateXid : prepare_chunks(slot, header);
    slot.state = State::kSent;
    if (status != CallStatus::kReplied) {
        slot.completion.status = status;
        withdraw(slot, status, AfterWithdraw::kComplete);
        return;
    }
    send_call(slot, header);
}

void Requester::send_call(Slot& slot, Header& header) {
    header.proc = slot.plan.form == CallPlan::Form::kPositionZero ? Proc::kNomsg : Proc::kMsg;
    header.inv_handle = header.version == kVersion2 ? slot.inv_handle : 0;
    outstanding_xids_.emplace(header.xid, id_of(slot));
    ++outstanding_;
    ++link_.counters.calls_sent;
    if (slot.plan.form == CallPlan::Form::kPositionZero) {
        link_.send(header);
        return;
    }
    const MessagePieces pieces(slot.request.message, kZeroOctets,
                               [&](std::size_t) { return slot.plan.form == CallPlan::Form::kInline; });
    link_.send(header, pieces.all());
}

bool Requester::expose(Slot& slot, std::span<const std::byte> memory, Access access, Segment& segment) {
    Exposure& exposure = slot.exposures[slot.exposure_count];
    exposure = {};
    if (!link_.outbox.expose(memory, access, exposure)) {
        return false;
    }
    ++slot.exposure_count;
    segment = exposure.segment;
    if (slot.inv_handle == 0 && exposure.can_remote_invalidate && link_.config.can_offer_invalidation) {
        slot.inv_handle = segment.handle;
    }
    return true;
}

CallStatus Requester::prepare_chunks(Slot& slot, Header& header) {
    const CallPlan& plan = slot.plan;
    const bool has_chunks =
        plan.form != CallPlan::Form::kInline || plan.write_chunks || plan.reply_chunk_octets != 0;
    if (has_chunks && !is_forward_ && header.version == kVersion2 &&
        link_.peer_backward != BackwardSupport::kGeneral) {
        return CallStatus::kBackwardRefused;
    }
    if (!is_forward_ && header.version == kVersion2 && link_.peer_backward == BackwardSupport::kNone) {
        return CallStatus::kBackwardRefused;
    }
    Segment segment{};
    if (plan.form == CallPlan::Form::kPositionZero) {
        const CallStatus status = prepare_position_zero(slot, header);
        if (status != CallStatus::kReplied) {
            return status;
        }
    }
    const RpcMessage& message = slot.request.message;
    for (std::size_t i = 0; plan.items_in_chunks && i < message.items.size(); ++i) {
        if (message.items[i].data.empty()) {
            continue;
        }
        if (!expose(slot, message.items[i].data, Access::kRead, segment)) {
            return CallStatus::kNoMemory;
        }
        header.chunks.add_read({static_cast<std::uint32_t>(item_position(message, i)), segment});
        slot.has_read_items = true;
    }
    slot.first_write = slot.exposure_count;
    for (std::size_t i = 0; plan.write_chunks && i < slot.request.results.size(); ++i) {
        if (!expose(slot, slot.request.results[i], Access::kWrite, segment)) {
            return CallStatus::kNoMemory;
        }
        header.chunks.begin_write_chunk();
        header.chunks.add_segment(segment);
        ++slot.write_count;
    }
    if (plan.reply_chunk_octets != 0) {
        slot.reply_chunk = link_.outbox.allocate(plan.reply_chunk_octets);
        if (!slot.reply_chunk.is_valid() ||
            !expose(slot, slot.reply_chunk.octets.first(plan.reply_chunk_octets), Access::kWrite, segment)) {
            return CallStatus::kNoMemory;
        }
        header.chunks.begin_reply_chunk();
        header.chunks.add_segment(segment);
    }
    return CallStatus::kReplied;
}

CallStatus Requester::prepare_position_zero(Slot& slot, Header& header) {
    const RpcMessage& message = slot.request.message;
    std::span<const std::byte> memory = message.stream;
    if (!slot.plan.items_in_chunks && !message.items.empty()) {
        const MessagePieces pieces(message, kZeroOctets, [](std::size_t) { return true; });
        slot.whole_call = link_.outbox.allocate(pieces.octets());
        if (!slot.whole_call.is_valid()) {
            return CallStatus::kNoMemory;
        }
        std::byte* to = slot.whole_call.octets.data();
        for (const std::span<const std::byte> piece : pieces.all()) {
            to = std::copy(piece.begin(), piece.end(), to);
        }
        memory = slot.whole_call.octets.first(pieces.octets());
    }
    Segment segment{};
    if (!expose(slot, memory, Access::kRead, segment)) {
        return CallStatus::kNoMemory;
    }
    header.chunks.add_read({0, segment});
    return CallStatus::kReplied;
}

// --- ends

void Requester::withdraw(Slot& slot, CallStatus status, AfterWithdraw after) {
    slot.completion.status = status;
    slot.after = after;
    slot.state = State::kWithdrawing;
    const std::span<const Exposure> exposures = std::span(slot.exposures).first(slot.exposure_count);
    if (slot.invalidated != 0) {
        ++link_.counters.remote_invalidations;
    }
    link_.counters.local_invalidations += exposures.size() - (slot.invalidated != 0 ? 1 : 0);
    if (exposures.empty() || link_.outbox.withdraw(id_of(slot), exposures, slot.invalidated)) {
        finish(slot);
    }
}

void Requester::on_withdrawn(std::uint32_t call) {
    Slot* slot = slot_of(call);
    if (slot != nullptr && slot->state == State::kWithdrawing) {
        finish(*slot);
        send_queued();
    }
}

/// Nothing of the call is in the peer's reach any more.
void Requester::finish(Slot& slot) {
    slot.exposure_count = 0;
    if (slot.whole_call.is_valid()) {
        link_.outbox.free(slot.whole_call);
        slot.whole_call = {};
    }
    if (slot.reply_chunk.is_valid()) {
        link_.outbox.free(slot.reply_chunk);
        slot.reply_chunk = {};
    }
    if (slot.after == AfterWithdraw::kSendAgain && slot.state == State::kWithdrawing && !link_.is_closed) {
        slot.state = State::kQueued;
        ++link_.counters.calls_resent;
        queue_.push_front(id_of(slot));
        return;
    }
    const Completion completion = slot.completion;
    const std::uint64_t token = slot.request.token;
    if (slot.is_late) {
        slot.state = State::kAbandoned;
    } else {
        release(slot);
    }
    link_.outbox.complete(token, completion);
}

void Requester::on_disconnected() {
    for (Slot& slot : slots_) {
        if (slot.state == State::kFree) {
            continue;
        }
        const bool is_withdrawing = slot.state == State::kWithdrawing;
        const bool had_ended = is_withdrawing && slot.after == AfterWithdraw::kComplete;
        const bool is_abandoned = slot.state == State::kAbandoned;
        slot.is_late = false;
        slot.after = AfterWithdraw::kComplete;
        if (is_abandoned) {
            release(slot);
            continue;
        }
        if (!had_ended) {
            slot.completion.status = CallStatus::kDisconnected;
        }
        // Windows die with the QP: the outbox ends what is left of these exposures.
        if (slot.exposure_count != 0 && !is_withdrawing) {
            static_cast<void>(link_.outbox.withdraw(
                id_of(slot), std::span(slot.exposures).first(slot.exposure_count), slot.invalidated));
        }
        finish(slot);
    }
    queue_.clear();
    outstanding_xids_.clear();
    outstanding_ = 0;
    earliest_deadline_ns_ = 0;
}

void Requester::return_credit() { outstanding_ -= outstanding_ != 0 ? 1 : 0; }

void Requester::on_grant(std::uint32_t credits) {
    granted_ = std::max(credits, 1U);
    has_grant_ = true;
}

}  // namespace urnic::rpcrdma
