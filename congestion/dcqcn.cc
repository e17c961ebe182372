#include "congestion/dcqcn.h"

#include <algorithm>

namespace urnic::congestion {

void Dcqcn::start(const DcqcnParameters& parameters, BitsPerSecond line_rate) {
    *this = {};
    line_rate_ = rate_ = target_ = std::min(line_rate, kMaxRate);
    alpha_ = parameters.initial_alpha;
}

void Dcqcn::on_cnp(const DcqcnParameters& parameters, TimeNs now) {
    if (!had_cnp_) {
        had_cnp_ = true;
        alpha_since_ = window_since_ = stage_since_ = now;
        if (parameters.rate_to_set_on_first_cnp != 0) {
            rate_ = target_ =
                std::min(rate_, std::max(parameters.rate_to_set_on_first_cnp, parameters.min_rate));
        }
    } else {
        advance(parameters, now);
        alpha_rise_pending_ = true;
    }
    if (parameters.rate_reduce_monitor_period_ns == 0) {
        cut(parameters, now);
    } else if (!cut_pending_) {
        // Windows follow each other from the first CNP on, with or without a cut.
        window_since_ = now - (now - window_since_) % parameters.rate_reduce_monitor_period_ns;
        cut_pending_ = true;
    }
    if (!parameters.alpha_once_per_period) {
        alpha_ = alpha_.times(parameters.g.complement()).plus(parameters.g);
        alpha_since_ = now;
        alpha_rise_pending_ = false;
    }
}

void Dcqcn::on_bytes_sent(const DcqcnParameters& parameters, TimeNs now, std::uint64_t bytes) {
    if (parameters.increase_bytes == 0 || at_line_rate()) {
        return;
    }
    advance(parameters, now);
    bytes_ += bytes;
    while (bytes_ >= parameters.increase_bytes && !at_line_rate()) {
        bytes_ -= parameters.increase_bytes;
        ++byte_stage_;
        increase(parameters);
    }
}

void Dcqcn::on_timer(const DcqcnParameters& parameters, TimeNs now) { advance(parameters, now); }

TimeNs Dcqcn::deadline(const DcqcnParameters& parameters) const {
    const bool rises = !at_line_rate() && parameters.increase_period_ns != 0;
    TimeNs next = rises ? stage_since_ + parameters.increase_period_ns : kNever;
    if (cut_pending_) {
        next = std::min(next, window_since_ + parameters.rate_reduce_monitor_period_ns);
    }
    return next;
}

// Everything that became due up to now, in its order: what is late counts at the time when it was due. A cut
// and an increase at one moment: the cut comes first and starts the increase timer again.
void Dcqcn::advance(const DcqcnParameters& parameters, TimeNs now) {
    for (TimeNs due = deadline(parameters); due <= now; due = deadline(parameters)) {
        update_alpha(parameters, due);
        if (cut_pending_ && due == window_since_ + parameters.rate_reduce_monitor_period_ns) {
            cut(parameters, due);
        } else {
            stage_since_ = due;
            ++timer_stage_;
            increase(parameters);
        }
    }
    update_alpha(parameters, now);
}

// Alpha matters when the rate is cut, and is brought up to date then: at the full rate nothing has to be
// done.
void Dcqcn::update_alpha(const DcqcnParameters& parameters, TimeNs now) {
    if (!had_cnp_ || parameters.alpha_period_ns == 0) {
        return;
    }
    const Fraction rest = parameters.g.complement();
    while (now - alpha_since_ >= parameters.alpha_period_ns) {
        alpha_ = alpha_.times(rest).plus(alpha_rise_pending_ ? parameters.g : Fraction());
        alpha_rise_pending_ = false;
        alpha_since_ += parameters.alpha_period_ns;
        if (alpha_.raw() == 0) {
            alpha_since_ = now - (now - alpha_since_) % parameters.alpha_period_ns;
        }
    }
}

void Dcqcn::cut(const DcqcnParameters& parameters, TimeNs now) {
    if (parameters.clamp_tgt_rate || timer_stage_ != 0 || byte_stage_ != 0) {
        target_ = rate_;
    }
    rate_ = std::max(rate_ - alpha_.of_rate(rate_) / 2, std::min(parameters.min_rate, line_rate_));
    timer_stage_ = byte_stage_ = 0;
    bytes_ = 0;
    cut_pending_ = false;
    stage_since_ = now;
}

void Dcqcn::increase(const DcqcnParameters& parameters) {
    const std::uint32_t offset = parameters.recovery_stages_inclusive ? 1 : 0;
    const bool has_bytes = parameters.increase_bytes != 0;
    const std::uint32_t least = has_bytes ? std::min(timer_stage_, byte_stage_) : timer_stage_;
    const std::uint32_t most = std::max(timer_stage_, byte_stage_);
    if (least > parameters.recovery_stages + offset) {
        target_ += parameters.hyper_increase;
    } else if (most >= parameters.recovery_stages + offset) {
        target_ += parameters.additive_increase;
    }
    target_ = std::min(target_, line_rate_);
    // Rounded up: otherwise the last bit per second would never come.
    rate_ = (rate_ + target_ + 1) / 2;
}

}  // namespace urnic::congestion
