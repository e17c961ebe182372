// How fast one QP may send: one small interface to the algorithms.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "congestion/dcqcn.h"
#include "congestion/timely.h"

namespace urnic::congestion {

enum class Algorithm : std::uint8_t {
    kNone,    // the line's rate
    kFixed,   // a rate of its own
    kDcqcn,   // by CNPs
    kTimely,  // by the time that acknowledgements take
};

/// What the QPs of a device, or one QP, go by. It outlives them, and may change between two calls.
struct RateParameters {
    Algorithm algorithm = Algorithm::kNone;
    BitsPerSecond line_rate = 0;
    BitsPerSecond fixed_rate = 0;  // at most the line's
    DcqcnParameters dcqcn;
    TimelyParameters timely;

    bool operator==(const RateParameters&) const = default;
};

/// One QP's. Pure: time is an argument, and never goes back.
class RateControl {
  public:
    /// As new, at full rate.
    void start(const RateParameters& parameters);

    /// A congestion notification packet came for the QP.
    void on_cnp(const RateParameters& parameters, TimeNs now);
    /// What a request asked an answer for was answered `rtt_ns` later.
    void on_rtt(const RateParameters& parameters, TimeNs rtt_ns);
    void on_bytes_sent(const RateParameters& parameters, TimeNs now, std::uint64_t bytes);
    /// To be called at deadline().
    void on_timer(const RateParameters& parameters, TimeNs now);
    /// When on_timer() wants to be called; kNever: not before something else was.
    [[nodiscard]] TimeNs deadline(const RateParameters& parameters) const;

    /// Frame bytes that may leave, in bit/s; never more than the line's rate, never 0 when that is not.
    [[nodiscard]] BitsPerSecond rate(const RateParameters& parameters) const;
    /// What the rate comes back to first (RT), and how bad the congestion was recently; of DCQCN.
    [[nodiscard]] BitsPerSecond target() const { return dcqcn_.target(); }
    [[nodiscard]] Fraction alpha() const { return dcqcn_.alpha(); }
    [[nodiscard]] const Dcqcn& dcqcn() const { return dcqcn_; }

  private:
    Dcqcn dcqcn_;
    Timely timely_;
};

}  // namespace urnic::congestion
