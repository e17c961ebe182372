// The kProbe timer of an RC requester: the probe timeout (PTO) of RFC 8985 and RFC 9002 section 6.2. It runs
// while something that was retransmitted is not answered, and, for a second after a loss, while an
// acknowledgement that was asked for is overdue. What expires is sent again with twice the wait, kMaxProbes
// times; then only the ACK timeout and its retries decide (IBA 9.7.6.1.3).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/psn.h"
#include "base/time.h"
#include "rnic/qp/rc/rtt_estimator.h"

namespace urnic {

class ProbeTimer {
  public:
    explicit ProbeTimer(RttEstimator& rtt) : rtt_(rtt) {}

    /// As new.
    void reset() {
        pto_count_ = 0;
        recent_loss_ = is_sampling_ = false;
        retransmitted_at_ = started_at_ = loss_seen_at_ = 0;
    }

    // --- Events
    // -----------------------------------------------------------------------------------------------
    /// A packet was seen to be lost at `now`.
    void on_loss(TimeNs now) {
        // A sample that the recovery from a loss of long ago has left open says nothing.
        is_sampling_ = is_sampling_ && recent_loss_;
        recent_loss_ = true;
        loss_seen_at_ = now;
        pto_count_ = 0;
    }
    /// The timer expired, and the loss that it stands for was reported by nobody.
    void on_suspected_loss() { recent_loss_ = true; }
    /// The peer acknowledged something new.
    void on_progress() { pto_count_ = 0; }
    /// Forgets a loss that is long over.
    void on_ack(TimeNs now) { recent_loss_ = recent_loss_ && now - loss_seen_at_ < kRecentLossNs; }
    void on_retransmit(TimeNs now) { retransmitted_at_ = now; }
    /// Nothing could be sent until `now`: what the timer waits for may not have been sent at all.
    void restart(TimeNs now) { started_at_ = now; }
    void on_timeout(TimeNs now) {
        ++pto_count_;
        retransmitted_at_ = now;
        is_sampling_ = false;
    }

    // --- Samples of answers to retransmissions
    // ------------------------------------------------------------------
    /// The request or response `psn` was asked for again. After a timeout that is no sample (Karn's rule).
    void start_sample(Psn psn) {
        is_sampling_ = pto_count_ == 0;
        sample_psn_ = psn;
    }
    [[nodiscard]] bool is_sampling() const { return is_sampling_; }
    void cancel_sample() { is_sampling_ = false; }
    /// Everything before `end` is answered.
    void end_sample(TimeNs now, Psn end) {
        if (is_sampling_ && end > sample_psn_) {
            is_sampling_ = false;
            rtt_.add_retransmit_sample(now - retransmitted_at_);
        }
    }

    // --- What follows
    // -----------------------------------------------------------------------------------------
    [[nodiscard]] bool has_recent_loss() const { return recent_loss_; }
    [[nodiscard]] TimeNs loss_seen_at() const { return loss_seen_at_; }
    [[nodiscard]] TimeNs retransmitted_at() const { return retransmitted_at_; }
    [[nodiscard]] bool has_expired() const { return pto_count_ != 0; }
    [[nodiscard]] bool is_exhausted() const { return pto_count_ >= kMaxProbes; }
    /// Returns whether a packet that arrives at `now` can be an answer to the last retransmission. What
    /// arrives sooner than min_rtt / 2 cannot: packets were reordered, and the missing one has arrived.
    [[nodiscard]] bool can_be_answer(TimeNs now) const {
        return now - retransmitted_at_ >= rtt_.min_ns() / 2;
    }
    /// How long an answer to a retransmission may take; at most `longest_ns`, the ACK timeout.
    [[nodiscard]] TimeNs pto_ns(TimeNs longest_ns) const {
        return std::min(pto_of(rtt_.max_retransmit_ns(), pto_count_), longest_ns);
    }
    /// When the answer to the last retransmission is overdue.
    [[nodiscard]] TimeNs retransmit_deadline(TimeNs longest_ns) const {
        return std::max(retransmitted_at_, started_at_) + pto_ns(longest_ns);
    }
    /// When an acknowledgement that was asked for at `asked_at` is overdue.
    [[nodiscard]] TimeNs ack_deadline(TimeNs asked_at, TimeNs longest_ns) const {
        const TimeNs rtt_ns = std::max(rtt_.max_retransmit_ns(), rtt_.max_ns());
        return std::max({asked_at, retransmitted_at_, started_at_}) +
               std::min(pto_of(rtt_ns, pto_count_), longest_ns);
    }

  private:
    // Then the ACK timeout decides.
    static constexpr std::uint8_t kMaxProbes = 4;
    // For how long after a loss silence is taken for another one.
    static constexpr TimeNs kRecentLossNs = 1'000'000'000;
    // An answer may take this much longer than twice the longest recent one.
    static constexpr TimeNs kSlackNs = 16'000;

    static constexpr TimeNs pto_of(TimeNs rtt_ns, std::uint8_t count) {
        return (2 * rtt_ns + kSlackNs) << count;
    }

    RttEstimator& rtt_;
    std::uint8_t pto_count_ = 0;  // expirations since the last progress
    bool recent_loss_ = false;    // the last loss was seen at loss_seen_at_, not long ago
    bool is_sampling_ = false;    // until sample_psn_ is answered
    Psn sample_psn_;
    TimeNs loss_seen_at_ = 0;
    TimeNs retransmitted_at_ = 0;
    TimeNs started_at_ = 0;  // if that is later
};

}  // namespace urnic
