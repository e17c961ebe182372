// State that the requester (sends) and the completer (takes answers) of one RC QP share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "rnic/qp/rc/rc_common.h"
#include "rnic/qp/rc/rc_loss_recovery.h"
#include "rnic/qp/rc/rtt_estimator.h"
#include "rnic/qp/rc/send_window.h"
#include "rnic/qp/reorder_buffer.h"
#include "rnic/qp/timing.h"

namespace urnic {

class RcSendState {
  public:
    explicit RcSendState(RcCommon& common)
        : recovery(window, rtt_), early_responses(common.config.reorder_buffers), common_(common) {}

    SendWindow window;
    RcLossRecovery recovery;
    ReorderBuffer
        early_responses;  // responses that came early; not empty only while recovery.responses().has_gap()

    /// As new, with the first PSN to send.
    void reset(Psn first_psn);

    // --- Recovery -----------------------------------------------------------------------------------------
    /// The peer acknowledged something new: retry counters and the ACK timer start again (IBA 9.7.6.1.3).
    void on_progress(TimeNs now, const Outbox& outbox);
    /// The peer executed more than it had, though the window cannot move: it waits for a response. A
    /// window long that is progress, too.
    void restore_retries() { retries_left_ = common_.attr.retry_cnt; }
    /// Takes one more retry. Returns whether one was left; if not, the oldest WQE failed with RETRY_EXC_ERR.
    [[nodiscard]] bool consume_retry(TimeNs now, Outbox& outbox);
    /// The same, and everything not acknowledged goes again.
    [[nodiscard]] bool retry(TimeNs now, Outbox& outbox);
    /// Requests are missing at the peer: everything not acknowledged goes again.
    void go_back(TimeNs now) {
        window.rewind();
        rtt_.cancel_sample();
        recovery.cancel_after_loss(now);
    }
    /// One more wait after an RNR NAK with this timer code; fails with RNR_RETRY_EXC_ERR when none is left.
    /// To be called when the window has moved as far as the NAK acknowledges.
    void retry_after_rnr(TimeNs now, std::uint8_t timer_code, Outbox& outbox);
    [[nodiscard]] bool has_rnr_retry() const;
    /// Retries that are used up while this timer runs, and how many there are: of RNR NAKs 7 for any number.
    [[nodiscard]] TimerExpiry expiry_of(RcTimer timer) const;
    [[nodiscard]] bool is_waiting_for_rnr() const { return rnr_until_ != kNever; }
    void end_rnr_wait() { rnr_until_ = kNever; }
    void start_ack_timer(TimeNs now) { ack_timer_start_ = now; }
    /// Nothing could be sent until `now`: what the timers wait for has perhaps not been asked for.
    void restart_timers(TimeNs now) {
        ack_timer_start_ = now;
        recovery.restart_timer(now);
    }
    /// A packet went out whose answer ends at `psn` or behind it.
    void on_ack_requested(TimeNs now, Psn psn) {
        ack_requested_psn_ = psn;
        ack_requested_at_ = now;
    }
    /// The packet asks for an acknowledgement and was sent for the first time.
    void start_rtt_sample(TimeNs now, Psn psn) { rtt_.start_sample(now, psn); }
    /// When a timer expires; while an RNR wait lasts it is the only one that runs.
    [[nodiscard]] TimeNs deadline() const {
        if (is_waiting_for_rnr()) [[unlikely]] {
            return rnr_until_;
        }
        const TimeNs ack = ack_deadline();
        if (!recovery.active()) [[likely]] {
            return ack;
        }
        return std::min(ack, recovery.deadline(ack_overdue_since(), ack_timeout_ns(common_.attr.timeout)));
    }
    /// Which timer it is that expired, deadline() being in the past.
    [[nodiscard]] RcTimer expired_timer(TimeNs now) const {
        return is_waiting_for_rnr() ? RcTimer::kRnr : now < ack_deadline() ? RcTimer::kProbe : RcTimer::kAck;
    }
    /// The oldest missing response was already asked for again: more packets behind the same gap are the rest
    /// of the first burst and say nothing new.
    bool recovering_response = false;
    /// The peer has answered a READ or atomic with an RNR NAK: it was short of something itself.
    bool peer_refused_read = false;

    // --- End-to-end credits (IBA 9.7.7.2) ----------------------------------------------------------------
    void update_credits(std::uint8_t syndrome, std::uint32_t msn);
    /// How far the message is ahead of the last one that the peer has room for: <= 0 inside the limit.
    [[nodiscard]] std::int32_t beyond_credits(std::uint32_t message) const {
        return credits_limited_ ? Psn(message + 1).distance(limit_) : 0;
    }

    // --- Completion ---------------------------------------------------------------------------------------
    /// Completes the WQE that the window has just let go with success, when it is signaled, and those behind
    /// it that have nothing to wait for.
    void complete_success(const InflightWqe& wqe, std::uint32_t index, Outbox& outbox) {
        report_success(wqe, index, outbox);
        complete_local_ops(outbox);
    }
    /// Completes WQEs that send nothing, as far as all before them have completed.
    void complete_local_ops(Outbox& outbox) {
        while (!window.empty() && window.oldest().is_local_op() && common_.state != QpState::kErr) {
            const std::uint32_t index = window.una_index();
            const InflightWqe& wqe = window.oldest();
            window.pop_local_op();
            report_success(wqe, index, outbox);
        }
    }
    /// Completes the oldest WQE with an error and takes the QP to ERR.
    void fail_oldest(WcStatus status, Outbox& outbox);
    /// A local error of the WQE `index`: it fails as soon as all before it have completed.
    void set_local_error(std::uint32_t index, std::uint64_t wr_id, WcStatus status, Outbox& outbox);
    /// To be called when the window has moved.
    void report_local_error(Outbox& outbox);
    [[nodiscard]] bool has_local_error_at(std::uint32_t index) const {
        return local_error_ != WcStatus::kSuccess && local_error_index_ == index;
    }
    /// Completes what is left of the send queue with WR_FLUSH_ERR, at most `most`. Returns whether
    /// there may be more.
    bool flush(std::uint32_t most, Outbox& outbox);

  private:
    /// When the ACK timeout ends; kNever: nothing is awaited, or it is off.
    [[nodiscard]] TimeNs ack_deadline() const;
    /// Since when an acknowledgement that was asked for is awaited; kNever: none is. What did not ask for one
    /// may wait for the next packet that does.
    [[nodiscard]] TimeNs ack_overdue_since() const {
        return window.una_psn() <= ack_requested_psn_ ? std::max(ack_timer_start_, ack_requested_at_)
                                                      : kNever;
    }
    void report_success(const InflightWqe& wqe, std::uint32_t index, Outbox& outbox);
    void complete_error(std::uint64_t wr_id, std::uint32_t index, WcStatus status, Outbox& outbox);

    RcCommon& common_;
    RttEstimator rtt_;
    TimeNs ack_timer_start_ = 0;
    TimeNs rnr_until_ = kNever;
    TimeNs ack_requested_at_ = 0;  // the newest packet that asks for an answer
    Psn ack_requested_psn_;
    std::uint8_t retries_left_ = 0;
    std::uint8_t rnr_retries_left_ = 0;
    bool credits_limited_ = false;
    WcStatus local_error_ = WcStatus::kSuccess;
    std::uint32_t local_error_index_ = 0;
    Psn limit_;  // LSN: message sequence number that the peer has room for
    std::uint64_t local_error_wr_id_ = 0;
};

}  // namespace urnic
