// Round trip times that one RC requester measures (RFC 6298, RFC 9002 section 5): from a packet that asks for
// an acknowledgement to the packet that acknowledges it, one packet at a time.
//
// Timers follow the longest recent round trip instead of smoothed_rtt + 4 * rttvar: a responder coalesces
// acknowledgements, and one in software is kept from running now and then, so the tail counts and not the
// mean. Each sample that is not the longest lets the maximum decay by 1/8, the gain of RFC 6298.
#pragma once

#include <algorithm>

#include "base/psn.h"
#include "base/time.h"

namespace urnic {

class RttEstimator {
  public:
    /// max_retransmit_ns() before anything was retransmitted.
    static constexpr TimeNs kInitialRttNs = 50'000;

    /// As new.
    void reset() { *this = RttEstimator(); }

    // --- Samples
    // ----------------------------------------------------------------------------------------------
    /// The packet `psn`, which asks for an acknowledgement, was sent for the first time. Starts a sample
    /// unless one is in progress.
    void start_sample(TimeNs now, Psn psn) {
        if (!is_sampling_) {
            is_sampling_ = true;
            sample_psn_ = psn;
            sample_start_ns_ = now;
        }
    }
    /// Everything is sent again: what ends the sample may be the answer to either copy.
    void cancel_sample() { is_sampling_ = false; }
    /// Everything before `una` is acknowledged; `retransmitted_at_ns`: when anything was retransmitted last.
    /// Returns whether that ended a sample that is unambiguous (Karn's rule: nothing was retransmitted
    /// meanwhile). latest_ns() is that sample.
    bool on_ack(TimeNs now, Psn una, TimeNs retransmitted_at_ns) {
        if (!is_sampling_ || una <= sample_psn_) {
            return false;
        }
        is_sampling_ = false;
        const bool is_unambiguous = sample_start_ns_ >= retransmitted_at_ns;
        add_sample(now - sample_start_ns_, is_unambiguous);
        return is_unambiguous;
    }
    void add_sample(TimeNs rtt_ns, bool is_unambiguous) {
        raise(max_any_ns_, rtt_ns);
        if (is_unambiguous) {
            latest_ns_ = rtt_ns;
            raise(max_ns_, rtt_ns);
            min_ns_ = min_ns_ == 0 ? rtt_ns : std::min(min_ns_, rtt_ns);
        }
    }
    /// A retransmission was acknowledged after `rtt_ns`.
    void add_retransmit_sample(TimeNs rtt_ns) { raise(max_retransmit_ns_, rtt_ns); }

    // --- Estimates, 0 without a sample
    // ------------------------------------------------------------------------
    [[nodiscard]] TimeNs latest_ns() const { return latest_ns_; }
    [[nodiscard]] TimeNs min_ns() const { return min_ns_; }
    /// The longest recent round trip of packets that were sent once.
    [[nodiscard]] TimeNs max_ns() const { return max_ns_; }
    /// The same, ambiguous samples included: rather too long than too short.
    [[nodiscard]] TimeNs max_any_ns() const { return max_any_ns_; }
    /// The longest recent time from a retransmission to its acknowledgement.
    [[nodiscard]] TimeNs max_retransmit_ns() const { return max_retransmit_ns_; }

  private:
    static void raise(TimeNs& max_ns, TimeNs rtt_ns) { max_ns = std::max(rtt_ns, max_ns - max_ns / 8); }

    bool is_sampling_ = false;
    Psn sample_psn_;
    TimeNs sample_start_ns_ = 0;
    TimeNs latest_ns_ = 0;
    TimeNs min_ns_ = 0;
    TimeNs max_ns_ = 0;
    TimeNs max_any_ns_ = 0;
    TimeNs max_retransmit_ns_ = kInitialRttNs;
};

}  // namespace urnic
