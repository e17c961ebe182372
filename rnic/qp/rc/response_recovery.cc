#include "rnic/qp/rc/response_recovery.h"

namespace urnic {

bool ResponseRecovery::on_gap(TimeNs now, Psn end) {
    if (state_ == State::kIdle) {
        state_ = State::kGap;
        answered_end_ = end;
        restart();
        timer_.on_retransmit(now);
        timer_.on_loss(now);
        return true;
    }
    if (end <= answered_end_) {
        return false;
    }
    answered_end_ = end;
    return true;
}

bool ResponseRecovery::on_window_advanced(TimeNs now) {
    const Psn una = window_.una_psn();
    timer_.end_sample(now, una);
    if (una >= answered_end_) {
        state_ = State::kIdle;
    }
    return state_ == State::kIdle;
}

void ResponseRecovery::on_read_retry_sent(TimeNs now, const InflightWqe& wqe, Psn begin, Psn end) {
    retries_.add(window_.una_psn(), wqe.first_psn, begin, end);
    if (!timer_.is_sampling()) {
        timer_.start_sample(begin);
    }
    timer_.on_retransmit(now);
}

}  // namespace urnic
