// What an RC requester sends again when packets were lost, if it does not simply go back N (docs/adr/0007): a
// PSN sequence NAK names the first request that the peer misses, and that one is sent again alone
// (RequestRecovery); READ and atomic responses that are missing are requested again, and no others
// (ResponseRecovery). What is overdue is sent again by the probe timer (ProbeTimer). Go back N and the ACK
// timeout stay for all that this cannot repair.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/time.h"
#include "rnic/qp/rc/probe_timer.h"
#include "rnic/qp/rc/request_recovery.h"
#include "rnic/qp/rc/response_recovery.h"
#include "rnic/qp/rc/rtt_estimator.h"
#include "rnic/qp/rc/send_window.h"

namespace urnic {

class RcLossRecovery {
  public:
    RcLossRecovery(const SendWindow& window, RttEstimator& rtt)
        : window_(window), timer_(rtt), requests_(window, timer_), responses_(window, timer_) {}

    /// As new. Not `selective`: the requester always goes back N, and nothing here is ever active.
    void reset(bool is_selective);
    [[nodiscard]] bool is_selective() const { return is_selective_; }
    /// Returns whether something is missing at the peer or here, or was a short while ago.
    [[nodiscard]] bool active() const {
        return requests_.is_active() || responses_.has_gap() || timer_.has_recent_loss();
    }
    /// The window is rewound: everything from the oldest request on is sent again. Responses that arrived
    /// early stay of use.
    void cancel(TimeNs now);
    /// The same, because requests are missing: the next acknowledgements show what the peer kept.
    void cancel_after_loss(TimeNs now);
    void on_progress() { timer_.on_progress(); }
    /// When something was sent again last.
    [[nodiscard]] TimeNs retransmitted_at() const { return timer_.retransmitted_at(); }

    // --- Requests
    // ---------------------------------------------------------------------------------------------
    /// The peer misses the request with this PSN. Returns whether it is sent again on its own; if not, go
    /// back N.
    [[nodiscard]] bool on_sequence_nak(TimeNs now, Psn psn);
    /// An acknowledgement of what was acknowledged before was repeated, though requests beyond `end` are in
    /// flight. A peer that keeps early requests says so that it still misses the one at `end`. One that
    /// discards them says it of duplicates alone, shortly after a retransmission. `longest_ns`: the ACK
    /// timeout.
    void on_duplicate_ack(TimeNs now, Psn end, TimeNs longest_ns);
    /// The peer acknowledged everything before `end`; `cursor` is where the window's cursor was. Returns
    /// whether recovery continues; if not, the peer discarded what was behind the missing request: go back N.
    [[nodiscard]] bool on_ack(TimeNs now, Psn end, Psn cursor, bool is_plain_ack);
    /// Returns whether the request at resend_psn() is to be sent again.
    [[nodiscard]] bool must_resend_request() const {
        return requests_.state() == RequestRecovery::State::kResending;
    }
    [[nodiscard]] Psn resend_psn() const { return requests_.resend_psn(); }
    void on_request_resent(TimeNs now) { requests_.on_request_resent(now); }

    // --- Responses
    // --------------------------------------------------------------------------------------------
    [[nodiscard]] ResponseRecovery& responses() { return responses_; }
    [[nodiscard]] const ResponseRecovery& responses() const { return responses_; }

    // --- Time
    // -------------------------------------------------------------------------------------------------
    /// When the probe timer expires: an answer to a retransmission is overdue, or, for a while after a loss,
    /// an acknowledgement that was asked for at `ack_overdue_since` (kNever: none is owed). At most
    /// `longest_ns`, the ACK timeout, from then. kNever: not before the ACK timeout.
    [[nodiscard]] TimeNs deadline(TimeNs ack_overdue_since, TimeNs longest_ns) const;
    /// The probe timer expired. Returns whether what is overdue can be sent again; if not, go back N.
    [[nodiscard]] bool on_probe_timeout(TimeNs now);
    /// Nothing could be sent until `now`: the probe timer starts again.
    void restart_timer(TimeNs now) { timer_.restart(now); }

    /// Returns whether something is to be sent again now.
    [[nodiscard]] bool has_work() const { return must_resend_request() || responses_.has_work(); }

  private:
    const SendWindow& window_;
    bool is_selective_ = false;
    ProbeTimer timer_;
    RequestRecovery requests_;
    ResponseRecovery responses_;
};

}  // namespace urnic
