// TIMELY (Mittal et al., "TIMELY: RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, section 4):
// how fast one QP may send, from the time that acknowledgements take.
//
// Below t_low the rate rises, above t_high it falls whatever the trend; between them the trend decides: how
// fast the round trip time grows, as a part of the shortest one.
#pragma once

#include <cstdint>

#include "base/fraction.h"
#include "base/time.h"

namespace urnic::congestion {

struct TimelyParameters {
    TimeNs t_low_ns = 0;
    TimeNs t_high_ns = 0;
    TimeNs min_rtt_ns = 0;          // not 0
    Fraction ewma;                  // weight of a new difference of round trip times (alpha of the paper)
    Fraction beta;                  // how far the rate falls
    BitsPerSecond increase = 0;     // delta
    std::uint32_t hyper_after = 0;  // rises in a row after which each is `hyper_factor` times that
    std::uint32_t hyper_factor = 1;
    BitsPerSecond min_rate = 0;

    bool operator==(const TimelyParameters&) const = default;
};

/// The paper's parameters for links of 10 Gbit/s.
[[nodiscard]] TimelyParameters timely_of_paper();

class Timely {
  public:
    void start(BitsPerSecond line_rate);
    /// An acknowledgement came `rtt_ns` after its request went out; at most one for each round trip.
    void on_rtt(const TimelyParameters& parameters, TimeNs rtt_ns);

    [[nodiscard]] BitsPerSecond rate() const { return rate_; }

  private:
    [[nodiscard]] Fraction kept(const TimelyParameters& parameters, TimeNs rtt_ns) const;

    BitsPerSecond line_rate_ = 0;
    BitsPerSecond rate_ = 0;
    TimeNs last_rtt_ns_ = 0;      // 0: none yet
    std::int64_t rtt_trend_ = 0;  // 2^-16 ns a round trip, smoothed
    std::uint32_t rises_ = 0;     // in a row
};

}  // namespace urnic::congestion
