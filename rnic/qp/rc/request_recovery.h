// Requests that the peer of an RC requester misses, and how they are sent again (docs/adr/0007).
//
//                    +------------------------ begin_run() <------------------------+
//                    |   a NAK or a repeated ACK of something else that is missing, |
//                    v   or the packet behind the run is missing as well            |
//   kIdle ---> kResending ------------------------> kAwaitingAck -----------> kAwaitingProbe
//     ^  NAK,        ^  the last packet of the run     |  |  run acknowledged,      |
//     |  repeated    |  was sent                       |  |  more was sent behind   |
//     |  ACK, or     |                                 |  |                         |
//     |  timer       +---------------------------------+  |                         |
//     |                 probe timer: missing_psn_ alone   |                         |
//     +---------------------------------------------------+-------------------------+
//           run acknowledged, nothing was sent behind it      ACK beyond the packet behind the run
//
// A run is one or more requests with successive PSNs, [run_begin_, run_end_). The packet behind it is the
// probe: its acknowledgement shows that the peer kept what arrived early (PeerRecovery::kSelective), and
// that it is missing shows that the peer discarded it (kGoBackN) or that it was lost as well. From every
// state, cancel() leads to kIdle: then the window is rewound and everything goes again.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/time.h"
#include "rnic/qp/rc/probe_timer.h"
#include "rnic/qp/rc/send_window.h"

namespace urnic {

class RequestRecovery {
  public:
    enum class State : std::uint8_t { kIdle, kResending, kAwaitingAck, kAwaitingProbe };
    /// What the peer does with requests that arrive early.
    enum class PeerRecovery : std::uint8_t { kUnknown, kSelective, kGoBackN };

    RequestRecovery(const SendWindow& window, ProbeTimer& timer) : window_(window), timer_(timer) {}

    /// As new, with a peer of which nothing is known.
    void reset();
    /// The window is rewound. What is known of the peer stays.
    void cancel();
    /// The same, because requests are missing: up to what was sent, an ACK shows whether the peer kept them.
    void cancel_after_loss();

    /// The peer misses the request with this PSN, which was sent. Returns whether it is sent again on its
    /// own; if not, go back N.
    [[nodiscard]] bool on_sequence_nak(TimeNs now, Psn psn);
    /// As RcLossRecovery::on_duplicate_ack().
    void on_duplicate_ack(TimeNs now, Psn end, TimeNs longest_ns);
    /// As RcLossRecovery::on_ack().
    [[nodiscard]] bool on_ack(TimeNs now, Psn end, Psn cursor, bool is_plain_ack);
    /// The probe timer expired. Returns whether what is overdue can be sent again; if not, go back N.
    [[nodiscard]] bool on_probe_timeout(bool has_response_gap);
    /// The request at resend_psn() was sent.
    void on_request_resent(TimeNs now);

    [[nodiscard]] bool is_active() const { return state_ != State::kIdle || is_going_back_; }
    [[nodiscard]] State state() const { return state_; }
    [[nodiscard]] Psn resend_psn() const { return resend_psn_; }

  private:
    /// What is known to have been sent behind the run.
    enum class Probe : std::uint8_t {
        kNone,
        kRequest,   // an ACK up to it says that it is missing
        kResponse,  // the rest of a READ's responses: only a NAK says so
    };
    /// Why a run is sent again.
    enum class Cause : std::uint8_t { kReported, kTimeout };

    [[nodiscard]] bool is_run_open() const {
        return state_ == State::kResending || state_ == State::kAwaitingAck;
    }
    void begin_run(Psn psn, std::uint32_t num_packets, Cause cause);
    void on_run_acknowledged(Psn end);
    void end_probe() {
        probe_ = Probe::kNone;
        state_ = State::kIdle;
    }
    [[nodiscard]] bool count_failed_probe();

    const SendWindow& window_;
    ProbeTimer& timer_;
    State state_ = State::kIdle;
    PeerRecovery peer_ = PeerRecovery::kUnknown;
    Probe probe_ = Probe::kNone;
    Cause cause_ = Cause::kReported;  // kTimeout: the run may be late and not lost
    bool is_going_back_ = false;      // up to go_back_end_ an ACK shows whether the peer kept early requests
    std::uint8_t failed_probes_ = 0;  // in a row
    std::uint8_t dup_acks_ = 0;       // that came too soon to be an answer to the run
    Psn missing_psn_;                 // the oldest of the run that is not acknowledged
    Psn run_begin_;
    Psn run_end_;
    Psn resend_psn_;  // the next of the run to be sent
    Psn probe_psn_;
    Psn go_back_end_;
};

}  // namespace urnic
