#include "rnic/qp/flow_rate.h"

#include <algorithm>

namespace urnic {

void FlowRate::reset() {
    ++starts_;
    is_limited_ = false;
    deadline_ = wait_until_ = kNever;
    pacer_.start(0);
    if (settings_ != nullptr) {
        rate_.start(settings_->rate);
        update(0);
    }
}

void FlowRate::settings_changed(TimeNs clock, const congestion::Settings* settings) {
    settings_ = settings;
    reset();
    pacer_.start(clock);
}

// Who begins to be limited has no burst to spare: it was not silent.
void FlowRate::update(TimeNs clock) {
    const bool limited_before = is_limited_;
    is_limited_ = rate() < settings_->rate.line_rate;
    if (is_limited_ && !limited_before) {
        pacer_.start(clock);
    }
    deadline_ = std::min(is_limited_ ? wait_until_ : kNever, rate_.deadline(settings_->rate));
}

void FlowRate::sent(TimeNs now, TimeNs clock, std::uint32_t bytes) {
    if (!is_limited_) {
        return;
    }
    pacer_.sent(clock, bytes, rate(), settings_->burst_bytes);
    rate_.on_bytes_sent(settings_->rate, now, bytes);
    update(clock);
}

void FlowRate::wait(TimeNs now, TimeNs clock) {
    wait_until_ = now + (std::max(pacer_.next_ns(), clock) - clock);
    update(clock);
}

bool FlowRate::on_cnp(TimeNs now, TimeNs clock) {
    if (settings_ == nullptr || settings_->rate.algorithm != congestion::Algorithm::kDcqcn) {
        return false;
    }
    // A notification point leaves that gap between two. Some come closer together for having waited on their
    // way: the next one may come early by as much as the last one was late.
    const TimeNs gap_ns = settings_->min_time_between_cnps_ns;
    if (clock + gap_ns < next_cnp_ns_) {
        return false;
    }
    next_cnp_ns_ = std::max(next_cnp_ns_, clock) + gap_ns;
    rate_.on_cnp(settings_->rate, now);
    ++cnps_;
    update(clock);
    return true;
}

void FlowRate::on_rtt(TimeNs clock, TimeNs rtt_ns) {
    rate_.on_rtt(settings_->rate, rtt_ns);
    update(clock);
}

void FlowRate::on_timer(TimeNs now, TimeNs clock) {
    if (deadline_ > now) {
        return;
    }
    wait_until_ = wait_until_ <= now ? kNever : wait_until_;
    rate_.on_timer(settings_->rate, now);
    update(clock);
}

}  // namespace urnic
