#include "rnic/qp/rc/rc_loss_recovery.h"

namespace urnic {

void RcLossRecovery::reset(bool is_selective) {
    is_selective_ = is_selective;
    timer_.reset();
    requests_.reset();
    responses_.reset();
}

// The count of expired probes stays: a peer that was silent up to the ACK timeout is not probed more often.
void RcLossRecovery::cancel(TimeNs now) {
    timer_.on_retransmit(now);
    timer_.cancel_sample();
    requests_.cancel();
}

void RcLossRecovery::cancel_after_loss(TimeNs now) {
    cancel(now);
    if (is_selective_) {
        timer_.on_loss(now);
        requests_.cancel_after_loss();
    }
}

bool RcLossRecovery::on_sequence_nak(TimeNs now, Psn psn) {
    if (!is_selective_) {
        return false;
    }
    if (window_.cursor_psn() <= psn) {
        return true;  // it is the next to be sent anyhow, or comes after that
    }
    // With a response missing the window stands still, though the peer has acknowledged more.
    if (responses_.has_gap() && psn < responses_.answered_end()) {
        return true;  // the NAK is late
    }
    return requests_.on_sequence_nak(now, psn);
}

void RcLossRecovery::on_duplicate_ack(TimeNs now, Psn end, TimeNs longest_ns) {
    if (is_selective_) {
        requests_.on_duplicate_ack(now, end, longest_ns);
    }
}

bool RcLossRecovery::on_ack(TimeNs now, Psn end, Psn cursor, bool is_plain_ack) {
    timer_.end_sample(now, end);
    if (!requests_.on_ack(now, end, cursor, is_plain_ack)) {
        return false;
    }
    timer_.on_ack(now);
    return true;
}

TimeNs RcLossRecovery::deadline(TimeNs ack_overdue_since, TimeNs longest_ns) const {
    if (timer_.is_exhausted() || must_resend_request()) {
        return kNever;
    }
    if (requests_.state() != RequestRecovery::State::kIdle || responses_.has_gap()) {
        return timer_.retransmit_deadline(longest_ns);
    }
    if (!timer_.has_recent_loss() || ack_overdue_since == kNever) {
        return kNever;
    }
    return timer_.ack_deadline(ack_overdue_since, longest_ns);
}

bool RcLossRecovery::on_probe_timeout(TimeNs now) {
    timer_.on_timeout(now);
    responses_.on_probe_timeout();
    return requests_.on_probe_timeout(responses_.has_gap());
}

}  // namespace urnic
