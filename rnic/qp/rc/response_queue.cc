#include "rnic/qp/rc/response_queue.h"

#include <algorithm>

#include "base/check.h"

namespace urnic {

void ResponseQueue::reset() {
    first_ = end_ = new_pending_ = repeated_packets_ = 0;
    answer_ = Answer::kNone;
}

void ResponseQueue::add(const RcResponse& response) {
    URNIC_CHECK(end_ - first_ < kSlots);
    slot(end_++) = response;
    if (new_pending_++ == 0) {
        repeated_packets_ = 0;
    }
    cancel_ack();
}

bool ResponseQueue::may_repeat() const {
    if (new_pending_ == 0 || repeated_packets_ < kRepeatedPackets) {
        return true;
    }
    std::uint32_t position = first_;
    while (slot(position).is_duplicate) {
        ++position;
    }
    const RcResponse& waiting = slot(position);
    const auto packets = static_cast<std::uint32_t>(waiting.last_psn.distance(waiting.psn)) + 1;
    return repeated_packets_ - kRepeatedPackets < kRepeatedTimes * packets;
}

void ResponseQueue::add_duplicate(const RcResponse& response) {
    if (!may_repeat()) {
        return;
    }
    for (std::uint32_t position = first_; position != end_; ++position) {
        const RcResponse& waiting = slot(position);
        if (waiting.is_atomic != response.is_atomic || waiting.last_psn != response.last_psn) {
            continue;
        }
        if (waiting.is_started) {
            const bool is_duplicate = waiting.is_duplicate;
            if (!is_duplicate && response.psn < waiting.psn) {
                repeated_packets_ += static_cast<std::uint32_t>(waiting.psn.distance(response.psn));
            }
            ++first_;  // no other one has begun
            insert(response, is_duplicate);
        }
        return;
    }
    if (end_ - first_ < kSlots - kMaxRdAtomic) {
        insert(response, true);
    }
}

// In the order of PSNs, which is that of the requests, but behind an answer that has begun.
void ResponseQueue::insert(const RcResponse& response, bool is_duplicate) {
    std::uint32_t place = first_ + (first_ != end_ && slot(first_).is_started ? 1 : 0);
    while (place != end_ && slot(place).psn <= response.psn) {
        ++place;
    }
    for (std::uint32_t position = end_++; position != place; --position) {
        slot(position) = slot(position - 1);
    }
    slot(place) = response;
    slot(place).is_duplicate = is_duplicate;
}

void ResponseQueue::schedule_nak(std::uint8_t syndrome, Psn psn) {
    answer_ = Answer::kNak;
    nak_syndrome_ = syndrome;
    nak_psn_ = psn;
}

bool ResponseQueue::cancel_nak() {
    if (answer_ != Answer::kNak) {
        return false;
    }
    answer_ = Answer::kNone;
    return true;
}

bool ResponseQueue::send(std::uint32_t max_packets, Outbox& outbox, Outbox& data, const AethState& position) {
    for (std::uint32_t sent = 0; first_ != end_; ++sent) {
        while (slot(first_).is_duplicate && !may_repeat()) {
            pop();
        }
        if (sent == max_packets || data.room() == 0) {
            return true;
        }
        RcResponse& response = slot(first_);
        if (response.is_atomic) {
            send_atomic(response, position, data);
            pop();
        } else if (!send_read(response, position, data)) {
            break;
        }
    }
    if (answer_ == Answer::kNone) {
        return false;
    }
    if (outbox.room() == 0) {
        return true;
    }
    send_answer(position, outbox);
    return false;
}

void ResponseQueue::pop() {
    if (!slot(first_).is_duplicate) {
        --new_pending_;
        repeated_packets_ = 0;
    }
    ++first_;
}

// Sends the next packet of a READ; false when the READ failed and with it the QP.
bool ResponseQueue::send_read(RcResponse& response, const AethState& position, Outbox& outbox) {
    const bool is_first = !response.is_started;
    const bool is_last = response.psn == response.last_psn;
    const std::uint32_t bytes = std::min(response.left_bytes, common_.mtu_bytes);
    MemoryPiece piece;
    // The key is looked at again for every packet: it may have been revoked since the last.
    if (bytes != 0 && common_.config.keys->resolve_remote(
                          response.rkey, KeyUser{response.pd, common_.config.qp_num}, kAccessRemoteRead,
                          response.va_or_original, bytes, piece) != KeyTable::Verdict::kOk) {
        fail_read(response, wire::kNakRemoteAccessError, outbox);
        return false;
    }
    const std::uint8_t operation = is_first ? (is_last ? wire::kReadResponseOnly : wire::kReadResponseFirst)
                                            : (is_last ? wire::kReadResponseLast : wire::kReadResponseMiddle);
    wire::PacketHeader header = common_.header(operation, response.psn);
    header.aeth = {.syndrome = static_cast<std::uint8_t>(wire::kSyndromeAck | position.credits),
                   .msn = position.msn};
    if (!outbox.transmit(common_.path, header, {&piece, bytes != 0 ? std::size_t{1} : 0})) {
        fail_read(response, wire::kNakRemoteOperationalError, outbox);
        return false;
    }
    repeated_packets_ += response.is_duplicate ? 1 : 0;
    if (is_last) {
        pop();
        return true;
    }
    response.is_started = true;
    response.va_or_original += bytes;
    response.left_bytes -= bytes;
    ++response.psn;
    return true;
}

void ResponseQueue::send_atomic(const RcResponse& response, const AethState& position, Outbox& outbox) {
    wire::PacketHeader header = common_.header(wire::kAtomicAcknowledge, response.psn);
    header.aeth = {.syndrome = static_cast<std::uint8_t>(wire::kSyndromeAck | position.credits),
                   .msn = position.msn};
    header.atomic_ack = response.va_or_original;
    repeated_packets_ += response.is_duplicate ? 1 : 0;
    (void)outbox.transmit(common_.path, header, {});
}

void ResponseQueue::send_answer(const AethState& position, Outbox& outbox) {
    const bool is_nak = answer_ == Answer::kNak;
    wire::PacketHeader header =
        common_.header(wire::kAcknowledge, is_nak ? nak_psn_ : position.expected_psn - 1);
    header.aeth = {
        .syndrome = is_nak ? nak_syndrome_ : static_cast<std::uint8_t>(wire::kSyndromeAck | position.credits),
        .msn = position.msn};
    answer_ = Answer::kNone;
    (void)outbox.transmit(common_.path, header, {});
}

// What comes behind the READ cannot be answered any more: the NAK is the last word (IBA 9.9.3, class C).
void ResponseQueue::fail_read(const RcResponse& response, std::uint8_t syndrome, Outbox& outbox) {
    const bool is_access = syndrome == wire::kNakRemoteAccessError;
    schedule_nak(syndrome, response.psn);
    if (is_access) {
        ++common_.config.counters->resp_remote_access_errors;
    }
    first_ = end_;
    new_pending_ = 0;
    repeated_packets_ = 0;
    outbox.event(common_.self, is_access ? AsyncEventType::kQpAccessErr : AsyncEventType::kQpFatal);
    common_.enter_error();
}

}  // namespace urnic
