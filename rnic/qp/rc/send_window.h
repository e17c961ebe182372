// The send queue's WQEs that have PSNs and have not completed, in order: the records that requester and
// completer share.
//
//   retired | una_index .... cursor_index .... | tail_index ...
//   acked   | una_psn ...... cursor_psn ...... | next_psn
//
// una: oldest not completed; cursor: next packet to send (behind tail while retransmitting, go-back-N);
// tail: next WQE to take from the ring. WQEs that send nothing (binds and invalidations of windows) have a
// place in the order and no PSN: neither una nor cursor ever rests on one.
#pragma once

#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/psn.h"
#include "rnic/qp/limits.h"

namespace urnic {

/// What must stay true of a WQE after its first packet was sent, whatever the application writes to its ring.
struct InflightWqe {
    std::uint64_t wr_id = 0;
    std::uint32_t length_bytes = 0;
    Psn first_psn;
    std::uint32_t psn_count = 0;
    std::uint8_t opcode = 0;  // WrOpcode
    bool signaled = false;
    bool has_response = false;  // READ or atomic
    bool is_retried = false;    // READ: a request for it, or a part of it, went out again

    [[nodiscard]] Psn last_psn() const { return first_psn + (psn_count - 1); }
    [[nodiscard]] bool is_local_op() const { return psn_count == 0; }
};
static_assert(sizeof(InflightWqe) == 24);

class SendWindow {
  public:
    void reset(Psn first) {
        una_index_ = cursor_index_ = tail_index_ = 0;
        una_psn_ = cursor_psn_ = next_psn_ = sent_end_ = first;
        responses_in_flight_ = response_psns_in_flight_ = 0;
        una_local_ops_ = cursor_local_ops_ = 0;
    }

    [[nodiscard]] std::uint32_t una_index() const { return una_index_; }
    [[nodiscard]] std::uint32_t cursor_index() const { return cursor_index_; }
    [[nodiscard]] std::uint32_t tail_index() const { return tail_index_; }
    /// Number of the message at the cursor, counted from 0 as the peer counts (IBA 9.7.7.2).
    [[nodiscard]] std::uint32_t cursor_message() const { return cursor_index_ - cursor_local_ops_; }
    [[nodiscard]] Psn una_psn() const { return una_psn_; }
    [[nodiscard]] Psn cursor_psn() const { return cursor_psn_; }
    [[nodiscard]] Psn next_psn() const { return next_psn_; }
    /// One past the newest PSN that was ever sent: what lies beyond cannot have been acknowledged.
    [[nodiscard]] Psn sent_end() const { return sent_end_; }

    [[nodiscard]] bool empty() const { return una_index_ == tail_index_; }
    [[nodiscard]] bool at_tail() const { return cursor_index_ == tail_index_; }
    [[nodiscard]] bool is_awaiting_answer() const { return una_psn_ != sent_end_; }
    /// READs and atomics requested and not answered in full.
    [[nodiscard]] std::uint32_t responses_in_flight() const { return responses_in_flight_; }
    /// Request packets sent and not acknowledged.
    [[nodiscard]] std::uint32_t packets_in_flight() const {
        return static_cast<std::uint32_t>(cursor_psn_.distance(una_psn_)) - response_psns_in_flight_;
    }

    [[nodiscard]] const InflightWqe& at(std::uint32_t index) const { return wqes_[index % kMaxInFlightWqes]; }
    /// The WQE that a PSN of the window belongs to.
    [[nodiscard]] std::uint32_t index_of(Psn psn) const {
        std::uint32_t index = una_index_;
        while (psn > at(index).last_psn()) {
            ++index;
        }
        return index;
    }
    [[nodiscard]] const InflightWqe& oldest() const { return at(una_index_); }

    /// Returns whether a WQE of `psn_count` packets may be added.
    [[nodiscard]] bool has_room(std::uint32_t psn_count) const {
        return tail_index_ - una_index_ < kMaxInFlightWqes &&
               static_cast<std::uint32_t>(next_psn_.distance(una_psn_)) + psn_count <= kMaxPsnsOutstanding;
    }
    /// Adds the WQE `tail_index()` and gives it the next PSNs.
    const InflightWqe& add(const InflightWqe& wqe) {
        URNIC_CHECK(at_tail() && has_room(wqe.psn_count));
        InflightWqe& slot = wqes_[tail_index_ % kMaxInFlightWqes];
        // Field by field: a copy of the whole would load at once what was stored in parts a moment ago.
        slot.wr_id = wqe.wr_id;
        slot.length_bytes = wqe.length_bytes;
        slot.first_psn = next_psn_;
        slot.psn_count = wqe.psn_count;
        slot.opcode = wqe.opcode;
        slot.signaled = wqe.signaled;
        slot.has_response = wqe.has_response;
        slot.is_retried = wqe.is_retried;
        next_psn_ = next_psn_ + wqe.psn_count;
        ++tail_index_;
        return slot;
    }
    /// Adds the WQE `tail_index()`, which is done already and sends nothing.
    void add_local_op(const InflightWqe& wqe) {
        URNIC_CHECK(at_tail() && has_room(0));
        InflightWqe& slot = wqes_[tail_index_ % kMaxInFlightWqes];
        slot = wqe;
        slot.first_psn = next_psn_;
        slot.psn_count = 0;
        ++tail_index_;
        skip_local_ops();
    }
    /// The oldest WQE sends nothing: it leaves the window.
    void pop_local_op() {
        ++una_index_;
        ++una_local_ops_;
    }

    /// The packet at the cursor was sent; a READ request stands for all PSNs of its responses.
    void advance_cursor() {
        const InflightWqe& wqe = at(cursor_index_);
        std::uint32_t psns = 1;
        if (wqe.has_response) {
            psns = static_cast<std::uint32_t>(wqe.last_psn().distance(cursor_psn_)) + 1;
            if (cursor_psn_ != sent_end_) [[unlikely]] {
                mark_retried(cursor_index_);
            }
            ++responses_in_flight_;
            response_psns_in_flight_ += psns;
        }
        cursor_psn_ = cursor_psn_ + psns;
        if (cursor_psn_ > wqe.last_psn()) {
            ++cursor_index_;
            skip_local_ops();
        }
        if (cursor_psn_ > sent_end_) {
            sent_end_ = cursor_psn_;
        }
    }

    /// A request for this READ, or a part of it, goes out again: an answer may begin and end inside the READ.
    void mark_retried(std::uint32_t index) { wqes_[index % kMaxInFlightWqes].is_retried = true; }

    /// Every PSN up to and including `psn`, a PSN of the oldest WQE, is answered. Returns whether that
    /// ends the WQE; it then leaves the window.
    bool acknowledge(Psn psn) {
        const InflightWqe& wqe = oldest();
        const bool ends = psn == wqe.last_psn();
        const bool cursor_was_past = cursor_psn_ > psn;
        if (wqe.has_response && cursor_was_past) {
            response_psns_in_flight_ -= static_cast<std::uint32_t>(psn.distance(una_psn_)) + 1;
            responses_in_flight_ -= ends ? 1 : 0;
        }
        una_psn_ = psn + 1;
        una_index_ += ends ? 1 : 0;
        if (!cursor_was_past) {
            // An answer to a packet that was about to be sent again: send on from behind it.
            cursor_psn_ = una_psn_;
            cursor_index_ = una_index_;
            cursor_local_ops_ = una_local_ops_;
            skip_local_ops();
        }
        return ends;
    }

    /// The oldest WQE completes whatever was acknowledged (error): it leaves the window.
    void drop_oldest() { ++una_index_; }

    /// Go back N: everything not acknowledged is sent again.
    void rewind() {
        cursor_index_ = una_index_;
        cursor_psn_ = una_psn_;
        cursor_local_ops_ = una_local_ops_;
        responses_in_flight_ = response_psns_in_flight_ = 0;
    }

  private:
    void skip_local_ops() {
        while (cursor_index_ != tail_index_ && at(cursor_index_).is_local_op()) {
            ++cursor_index_;
            ++cursor_local_ops_;
        }
    }

    std::uint32_t una_index_ = 0;
    std::uint32_t cursor_index_ = 0;
    std::uint32_t tail_index_ = 0;
    Psn una_psn_;
    Psn cursor_psn_;
    Psn next_psn_;
    Psn sent_end_;
    std::uint32_t responses_in_flight_ = 0;
    std::uint32_t response_psns_in_flight_ = 0;
    std::uint32_t una_local_ops_ = 0;     // WQEs before una that sent nothing
    std::uint32_t cursor_local_ops_ = 0;  // and before the cursor
    std::array<InflightWqe, kMaxInFlightWqes> wqes_{};
};

}  // namespace urnic
