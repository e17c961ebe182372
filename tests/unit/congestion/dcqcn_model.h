// DCQCN as the paper's figure 7 and section 3.2 tell it, in floating point and nanosecond by nanosecond:
// slow, and nothing in common with congestion/dcqcn.cc but what it is told.
#pragma once

#include <algorithm>

#include "congestion/dcqcn.h"

namespace urnic::congestion {

class DcqcnModel {
  public:
    DcqcnModel(const DcqcnParameters& parameters, double line_rate)
        : p_(parameters),
          line_(line_rate),
          rate(line_rate),
          target(line_rate),
          alpha(parameters.initial_alpha.raw() / static_cast<double>(Fraction::kOne)),
          g_(parameters.g.raw() / static_cast<double>(Fraction::kOne)) {}

    void nanosecond() {
        ++now_;
        if (!started_) {
            return;
        }
        if (++alpha_age_ == p_.alpha_period_ns) {
            alpha *= 1 - g_;
            alpha += risen_ ? g_ : 0;
            risen_ = false;
            alpha_age_ = 0;
        }
        ++timer_age_;
        if (p_.rate_reduce_monitor_period_ns != 0 &&
            (now_ - first_cnp_) % p_.rate_reduce_monitor_period_ns == 0 && noticed_) {
            cut();
        } else if (p_.increase_period_ns != 0 && timer_age_ == p_.increase_period_ns) {
            timer_age_ = 0;
            ++timer_steps_;
            step();
        }
    }

    void cnp() {
        if (!started_) {
            started_ = true;
            first_cnp_ = now_;
            alpha_age_ = timer_age_ = 0;
            if (p_.rate_to_set_on_first_cnp != 0) {
                rate = target = std::min(rate, static_cast<double>(p_.rate_to_set_on_first_cnp));
            }
        } else {
            risen_ = true;
        }
        noticed_ = true;
        if (p_.rate_reduce_monitor_period_ns == 0) {
            cut();
        }
        if (!p_.alpha_once_per_period) {
            alpha = (1 - g_) * alpha + g_;
            alpha_age_ = 0;
            risen_ = false;
        }
    }

    void bytes(double count) {
        if (p_.increase_bytes == 0 || !started_) {
            return;
        }
        for (sent_ += count; sent_ >= static_cast<double>(p_.increase_bytes);
             sent_ -= static_cast<double>(p_.increase_bytes)) {
            ++byte_steps_;
            step();
        }
    }

  private:
    const DcqcnParameters p_;
    const double line_;

  public:
    double rate;
    double target;
    double alpha;

  private:
    void cut() {
        if (p_.clamp_tgt_rate || timer_steps_ + byte_steps_ != 0) {
            target = rate;
        }
        rate = std::max(rate * (1 - alpha / 2), static_cast<double>(p_.min_rate));
        timer_steps_ = byte_steps_ = 0;
        timer_age_ = 0;
        sent_ = 0;
        noticed_ = false;
    }
    void step() {
        // Before this step, for those who look at the count first.
        const long own = p_.recovery_stages_inclusive ? 1 : 0;
        const long f = p_.recovery_stages;
        const long t = timer_steps_ - own;
        const long b = p_.increase_bytes == 0 ? t : byte_steps_ - own;
        if (t > f && b > f) {
            target += static_cast<double>(p_.hyper_increase);
        } else if (t >= f || b >= f) {
            target += static_cast<double>(p_.additive_increase);
        }
        target = std::min(target, line_);
        rate = (rate + target) / 2;
    }

    const double g_;
    TimeNs now_ = 0;
    TimeNs first_cnp_ = 0;
    TimeNs alpha_age_ = 0;
    TimeNs timer_age_ = 0;
    double sent_ = 0;
    long timer_steps_ = 0;
    long byte_steps_ = 0;
    bool started_ = false;
    bool risen_ = false;
    bool noticed_ = false;
};

}  // namespace urnic::congestion
