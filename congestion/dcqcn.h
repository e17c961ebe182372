// The reaction point of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM
// 2015, section 3.2): how fast one QP may send, from the congestion notification packets (CNPs) that come for
// it.
//
// A CNP cuts the rate by half of alpha, which estimates how bad the congestion is. Then the rate comes back
// in steps, each counted by a timer or by bytes sent: half way to where it was (fast recovery), then beyond
// that by a little (additive increase), then by more (hyper increase).
#pragma once

#include <cstdint>

#include "base/fraction.h"
#include "base/time.h"

namespace urnic::congestion {

/// The names in parentheses are those of mlxconfig and of the ns-3 models.
struct DcqcnParameters {
    Fraction g;                  // weight of a new observation in alpha (rpg_gd, g)
    Fraction initial_alpha;      // before the first CNP (initial_alpha_value)
    TimeNs alpha_period_ns = 0;  // without CNP after which alpha falls (dce_tcp_rtt, alpha_resume_interval)
    TimeNs rate_reduce_monitor_period_ns = 0;  // one cut at most in each, at its end; 0: each CNP cuts at
                                               // once (rate_reduce_monitor_period)
    TimeNs increase_period_ns = 0;             // T (rpg_time_reset)
    std::uint64_t increase_bytes = 0;          // B (rpg_byte_reset); 0: no byte counter
    std::uint32_t recovery_stages = 0;         // F (rpg_threshold)
    BitsPerSecond additive_increase = 0;       // AI (rpg_ai_rate)
    BitsPerSecond hyper_increase = 0;          // HAI (rpg_hai_rate)
    BitsPerSecond min_rate = 0;                // (rpg_min_rate)
    BitsPerSecond rate_to_set_on_first_cnp =
        0;  // the first CNP sets this at most; 0: nothing (rate_to_set_on_first_cnp)
    bool alpha_once_per_period = false;  // at most once in each alpha period, at its end; else with each CNP
    bool clamp_tgt_rate = true;          // a cut makes the rate before it the target, even when it did not
                                         // rise since the last cut (clamp_tgt_rate)
    bool recovery_stages_inclusive = false;  // the F-th step is fast recovery still, not the first beyond it

    bool operator==(const DcqcnParameters&) const = default;
};

/// One QP's. Parameters come with each call, so that they can change at any time; time never goes back.
class Dcqcn {
  public:
    /// As new: at `line_rate`, which is never exceeded.
    void start(const DcqcnParameters& parameters, BitsPerSecond line_rate);

    void on_cnp(const DcqcnParameters& parameters, TimeNs now);
    void on_bytes_sent(const DcqcnParameters& parameters, TimeNs now, std::uint64_t bytes);
    /// To be called at deadline(), and harmless at any other time.
    void on_timer(const DcqcnParameters& parameters, TimeNs now);
    /// When the rate changes next if nothing else happens; kNever at the full rate.
    [[nodiscard]] TimeNs deadline(const DcqcnParameters& parameters) const;

    [[nodiscard]] BitsPerSecond rate() const { return rate_; }
    [[nodiscard]] BitsPerSecond target() const { return target_; }
    /// As of the last call that took a time.
    [[nodiscard]] Fraction alpha() const { return alpha_; }
    /// Steps up since the last cut, of the timer and of the byte counter.
    [[nodiscard]] std::uint32_t timer_stage() const { return timer_stage_; }
    [[nodiscard]] std::uint32_t byte_stage() const { return byte_stage_; }
    [[nodiscard]] bool at_line_rate() const { return rate_ == line_rate_; }

  private:
    void advance(const DcqcnParameters& parameters, TimeNs now);
    void update_alpha(const DcqcnParameters& parameters, TimeNs now);
    void cut(const DcqcnParameters& parameters, TimeNs now);
    void increase(const DcqcnParameters& parameters);

    BitsPerSecond line_rate_ = 0;
    BitsPerSecond rate_ = 0;    // RC
    BitsPerSecond target_ = 0;  // RT
    Fraction alpha_;
    std::uint32_t timer_stage_ = 0;
    std::uint32_t byte_stage_ = 0;
    bool had_cnp_ = false;
    bool cut_pending_ = false;         // a CNP came in this cut window
    bool alpha_rise_pending_ = false;  // and in this alpha period
    std::uint64_t bytes_ = 0;          // since the byte stage rose
    TimeNs alpha_since_ = 0;           // begin of the alpha period
    TimeNs window_since_ = 0;          // and of the cut window
    TimeNs stage_since_ = 0;           // when the timer stage rose
};

}  // namespace urnic::congestion
