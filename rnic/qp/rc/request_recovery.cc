#include "rnic/qp/rc/request_recovery.h"

namespace urnic {

namespace {

// A peer that was seen to keep early requests discards them after all when runs of 1, 2, 4 ... 128 packets,
// together the window (kMaxInFlightPackets), were each followed by a missing one.
constexpr std::uint8_t kMaxFailedProbes = 7;
// Duplicate ACKs, too soon to be answers, that show a peer which keeps early requests: the NAK may have
// overtaken one ACK.
constexpr std::uint8_t kDupAcksOfSelectivePeer = 2;

}  // namespace

void RequestRecovery::reset() {
    peer_ = PeerRecovery::kUnknown;
    cancel();
}

void RequestRecovery::cancel() {
    state_ = State::kIdle;
    probe_ = Probe::kNone;
    is_going_back_ = false;
    failed_probes_ = 0;
}

void RequestRecovery::cancel_after_loss() {
    cancel();
    is_going_back_ = true;
    go_back_end_ = window_.sent_end();
}

// A run of `num_packets` from `psn` on, or of as many as were sent. A READ or atomic is a run of its own: it
// is acknowledged in parts.
void RequestRecovery::begin_run(Psn psn, std::uint32_t num_packets, Cause cause) {
    state_ = State::kResending;
    cause_ = cause;
    missing_psn_ = run_begin_ = resend_psn_ = psn;
    dup_acks_ = 0;
    std::uint32_t index = window_.index_of(psn);
    const bool is_response = window_.at(index).has_response;
    probe_psn_ = is_response ? window_.at(index).last_psn() + 1 : psn + 1;
    while (!is_response && --num_packets != 0 && window_.cursor_psn() > probe_psn_) {
        while (probe_psn_ > window_.at(index).last_psn()) {
            ++index;
        }
        if (window_.at(index).has_response) {
            break;
        }
        ++probe_psn_;
    }
    run_end_ = is_response ? psn + 1 : probe_psn_;
    probe_ = window_.sent_end() <= probe_psn_ ? Probe::kNone
             : is_response                    ? Probe::kResponse
                                              : Probe::kRequest;
}

// The packet behind a run is missing as well. Returns whether that may be a loss of its own; else the peer
// discards what arrives early.
bool RequestRecovery::count_failed_probe() {
    if (peer_ == PeerRecovery::kSelective && ++failed_probes_ <= kMaxFailedProbes) {
        return true;
    }
    peer_ = PeerRecovery::kGoBackN;
    return false;
}

bool RequestRecovery::on_sequence_nak(TimeNs now, Psn psn) {
    if (is_run_open() && psn > run_begin_ && psn < run_end_) {
        return true;  // it was sent again already, or is next
    }
    const bool is_probe = probe_ != Probe::kNone && psn == probe_psn_;
    failed_probes_ = is_probe ? failed_probes_ : 0;
    if (peer_ == PeerRecovery::kGoBackN || (is_probe && !count_failed_probe())) {
        return false;
    }
    begin_run(psn, 1U << failed_probes_, Cause::kReported);
    timer_.on_loss(now);
    return true;
}

void RequestRecovery::on_duplicate_ack(TimeNs now, Psn end, TimeNs longest_ns) {
    // What was sent before the run can have been answered, but no duplicate can have drawn that answer.
    if (is_run_open() && peer_ == PeerRecovery::kUnknown && cause_ == Cause::kReported &&
        !timer_.has_expired() && !timer_.can_be_answer(now) && ++dup_acks_ == kDupAcksOfSelectivePeer) {
        peer_ = PeerRecovery::kSelective;
    }
    if (state_ == State::kResending || window_.cursor_psn() <= end ||
        (is_run_open() && now < timer_.retransmitted_at() + timer_.pto_ns(longest_ns))) {
        return;
    }
    // Without a loss it comes unasked, with new credits (IBA 9.7.7.2).
    if (peer_ != PeerRecovery::kSelective && !timer_.has_recent_loss()) {
        return;
    }
    // A peer that discards acknowledges only duplicates so. Long after the last retransmission it keeps early
    // requests after all: two losses in a row look like discarding.
    if (peer_ == PeerRecovery::kGoBackN && (window_.cursor_psn() != window_.sent_end() ||
                                            now < timer_.loss_seen_at() + 2 * timer_.pto_ns(longest_ns))) {
        return;
    }
    peer_ = peer_ == PeerRecovery::kGoBackN ? PeerRecovery::kUnknown : peer_;
    begin_run(end, 1, Cause::kReported);
    timer_.on_loss(now);
}

// Everything before `end` is acknowledged, and that is a part of the run or all of it.
void RequestRecovery::on_run_acknowledged(Psn end) {
    missing_psn_ = end;
    resend_psn_ = end > resend_psn_ ? end : resend_psn_;
    if (end >= run_end_) {
        state_ = probe_ != Probe::kNone ? State::kAwaitingProbe : State::kIdle;
    }
    timer_.on_progress();
}

bool RequestRecovery::on_ack(TimeNs now, Psn end, Psn cursor, bool is_plain_ack) {
    if (is_run_open() && end > missing_psn_) {
        on_run_acknowledged(end);
    }
    if (is_going_back_) {
        if (end > cursor && timer_.can_be_answer(now)) {
            peer_ = PeerRecovery::kSelective;
        }
        is_going_back_ = peer_ != PeerRecovery::kSelective && end < go_back_end_;
    }
    if (probe_ == Probe::kNone) {
        return true;
    }
    const std::int32_t beyond = end.distance(probe_psn_);
    if (beyond > 0) {
        // After a timeout what is behind the run may have been late, too; a peer that seemed to discard gets
        // another chance.
        if (cause_ == Cause::kTimeout) {
            peer_ = peer_ == PeerRecovery::kGoBackN ? PeerRecovery::kUnknown : peer_;
        } else if (timer_.can_be_answer(now)) {
            peer_ = PeerRecovery::kSelective;
        }
        end_probe();
        failed_probes_ = 0;
    } else if (beyond == 0 && cause_ == Cause::kTimeout && failed_probes_ == 0 &&
               peer_ != PeerRecovery::kSelective) {
        // The run was lost, or late: if the probe is missing, too, the timer tells.
        end_probe();
        failed_probes_ = 1;
    } else if (beyond == 0 && is_plain_ack && probe_ == Probe::kRequest) {
        // A peer that keeps early requests may have had to repeat itself, and the probe be lost as well.
        if (!count_failed_probe()) {
            return false;
        }
        begin_run(end, 1U << failed_probes_, Cause::kReported);
        timer_.on_loss(now);
    }
    return true;
}

bool RequestRecovery::on_probe_timeout(bool has_response_gap) {
    if (is_run_open()) {
        state_ = State::kResending;
        resend_psn_ = missing_psn_;
        run_end_ = missing_psn_ + 1;
    } else if (state_ == State::kAwaitingProbe && peer_ != PeerRecovery::kSelective) {
        return false;
    } else if (!has_response_gap && window_.cursor_psn() != window_.una_psn()) {
        begin_run(window_.una_psn(), 1, Cause::kTimeout);
        timer_.on_suspected_loss();
    }
    return true;
}

void RequestRecovery::on_request_resent(TimeNs now) {
    timer_.start_sample(resend_psn_);
    timer_.on_retransmit(now);
    ++resend_psn_;
    state_ = resend_psn_ == run_end_ ? State::kAwaitingAck : State::kResending;
}

}  // namespace urnic
