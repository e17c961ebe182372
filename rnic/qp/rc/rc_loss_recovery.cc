#include "rnic/qp/rc/rc_loss_recovery.h"

#include <algorithm>

namespace urnic {

namespace {

// Before an answer was measured.
constexpr TimeNs kInitialRttNs = 50'000;
// An answer may take this much longer than twice the longest of late.
constexpr TimeNs kSlackNs = 16'000;
// A peer that held requests is one that discards when runs of 1, 2, 4 ... 128 packets, together the window
// (kMaxInFlightPackets), were each followed by a missing one.
constexpr std::uint8_t kMaxFailedProbes = 7;
// How often something goes again without a sign of life; then the ACK timeout decides. The wait doubles.
constexpr std::uint8_t kMaxPtoCount = 4;
// For how long after a loss silence is taken for another one.
constexpr TimeNs kRecentLossNs = 1'000'000'000;

constexpr TimeNs wait_ns(TimeNs answer_ns, std::uint8_t tries) { return (2 * answer_ns + kSlackNs) << tries; }

}  // namespace

void RcLossRecovery::reset(bool selective) {
    selective_ = selective;
    peer_ = PeerRecovery::kUnknown;
    max_rtt_ns_ = kInitialRttNs;
    min_rtt_ns_ = 0;
    pto_count_ = 0;
    responses_missing_ = recent_loss_ = false;
    cancel(0);
}

void RcLossRecovery::cancel(TimeNs now) {
    sent_at_ = now;
    request_missing_ = resend_request_ = awaiting_probe_ = going_back_ = is_sampling_rtt_ = false;
    failed_probes_ =
        0;  // pto_count_ stays: a peer that was silent up to the ACK timeout is not asked more often
}

void RcLossRecovery::cancel_after_loss(TimeNs now) {
    cancel(now);
    pto_count_ = 0;
    loss_seen_at_ = now;
    recent_loss_ = selective_;
    going_back_ = selective_;
    go_back_end_ = window_.sent_end();
}

std::uint32_t RcLossRecovery::index_of(Psn psn) const {
    std::uint32_t index = window_.una_index();
    while (psn.distance(window_.at(index).last_psn()) > 0) {
        ++index;
    }
    return index;
}

// A run of `num_packets` from `psn` on is to go again, or as many as were sent. A READ or atomic is a run of
// its own: it is acknowledged in parts.
void RcLossRecovery::open(TimeNs now, Psn psn, std::uint32_t num_packets) {
    recent_loss_ = true;
    loss_seen_at_ = now;
    request_missing_ = true;
    nak_psn_ = run_first_ = resend_psn_ = psn;
    resend_request_ = true;
    pto_count_ = dup_acks_ = 0;
    std::uint32_t index = index_of(psn);
    probe_by_ack_ = !window_.at(index).has_response;
    probe_psn_ = probe_by_ack_ ? psn + 1 : window_.at(index).last_psn() + 1;
    while (probe_by_ack_ && --num_packets != 0 && window_.cursor_psn().distance(probe_psn_) > 0) {
        while (probe_psn_.distance(window_.at(index).last_psn()) > 0) {
            ++index;
        }
        if (window_.at(index).has_response) {
            break;
        }
        ++probe_psn_;
    }
    run_end_ = probe_by_ack_ ? probe_psn_ : psn + 1;
    awaiting_probe_ = window_.sent_end().distance(probe_psn_) > 0;
    spurious_possible_ = false;
}

// A run was answered, and what follows it is missing as well: the peer discards it, or it was lost.
bool RcLossRecovery::is_selective_after_failed_probe() {
    // Once it was seen to hold requests, the next one may as well have been lost on its own.
    if (peer_ == PeerRecovery::kSelective && ++failed_probes_ <= kMaxFailedProbes) {
        return true;
    }
    peer_ = PeerRecovery::kGoBackN;
    return false;
}

bool RcLossRecovery::on_sequence_nak(TimeNs now, Psn psn) {
    if (!selective_) {
        return false;
    }
    if (window_.cursor_psn().distance(psn) <= 0) {
        return true;  // it is the next to be sent anyhow, or comes after that
    }
    // While a response is missing the window stands still, though the peer has acknowledged more.
    if (responses_missing_ && psn.distance(answered_end_) < 0) {
        return true;  // the NAK comes late
    }
    if (request_missing_ && psn.distance(run_first_) > 0 && psn.distance(run_end_) < 0) {
        return true;  // it has gone again already, or goes next
    }
    const bool is_next = awaiting_probe_ && psn == probe_psn_;
    failed_probes_ = is_next ? failed_probes_ : 0;
    if (peer_ == PeerRecovery::kGoBackN || (is_next && !is_selective_after_failed_probe())) {
        return false;
    }
    open(now, psn, 1U << failed_probes_);
    return true;
}

void RcLossRecovery::on_duplicate_ack(TimeNs now, Psn end, TimeNs longest_ns) {
    // What comes before anything that was sent again can have been answered, no duplicate has drawn. One of
    // them the NAK may have overtaken.
    if (request_missing_ && peer_ == PeerRecovery::kUnknown && !spurious_possible_ && pto_count_ == 0 &&
        !can_be_answer(now) && ++dup_acks_ == 2) {
        peer_ = PeerRecovery::kSelective;
    }
    if (!selective_ || resend_request_ || window_.cursor_psn().distance(end) <= 0 ||
        (request_missing_ && now < sent_at_ + pto_ns(longest_ns))) {
        return;
    }
    // On a wire that loses nothing it comes unasked, with new credits (IBA 9.7.7.2).
    if (peer_ != PeerRecovery::kSelective && !recent_loss_) {
        return;
    }
    // One that discards says this only of what was sent again. When that is long over, it holds after all:
    // two losses in a row look like discarding.
    if (peer_ == PeerRecovery::kGoBackN &&
        (window_.cursor_psn() != window_.sent_end() || now < loss_seen_at_ + 2 * pto_ns(longest_ns))) {
        return;
    }
    peer_ = peer_ == PeerRecovery::kGoBackN ? PeerRecovery::kUnknown : peer_;
    open(now, end, 1);
}

bool RcLossRecovery::on_ack(TimeNs now, Psn end, Psn cursor, bool is_plain_ack) {
    if (is_sampling_rtt_ && end.distance(rtt_sample_psn_) > 0) {
        sample(now);
    }
    if (request_missing_ && end.distance(nak_psn_) > 0) {
        request_missing_ = end.distance(run_end_) < 0;
        nak_psn_ = end;
        resend_psn_ = end.distance(resend_psn_) > 0 ? end : resend_psn_;
        resend_request_ = resend_request_ && request_missing_;
        pto_count_ = 0;
    }
    if (going_back_) {
        if (end.distance(cursor) > 0 && can_be_answer(now)) {
            peer_ = PeerRecovery::kSelective;
        }
        going_back_ = peer_ != PeerRecovery::kSelective && end.distance(go_back_end_) < 0;
    }
    if (awaiting_probe_) {
        const std::int32_t beyond = end.distance(probe_psn_);
        if (beyond > 0) {
            // After a suspicion the rest may have come as well; what seemed to discard gets another chance.
            if (spurious_possible_) {
                peer_ = peer_ == PeerRecovery::kGoBackN ? PeerRecovery::kUnknown : peer_;
            } else if (can_be_answer(now)) {
                peer_ = PeerRecovery::kSelective;
            }
            awaiting_probe_ = false;
            failed_probes_ = 0;
        } else if (beyond == 0 && spurious_possible_ && failed_probes_ == 0 &&
                   peer_ != PeerRecovery::kSelective) {
            // What was suspected to be lost, or late: silence will tell.
            awaiting_probe_ = false;
            failed_probes_ = 1;
        } else if (beyond == 0 && is_plain_ack && probe_by_ack_) {
            // A peer that holds may have had to repeat itself, and the next request be lost as well.
            if (!is_selective_after_failed_probe()) {
                return false;
            }
            open(now, end, 1U << failed_probes_);
        }
    }
    recent_loss_ = recent_loss_ && now - loss_seen_at_ < kRecentLossNs;
    return true;
}

void RcLossRecovery::on_request_resent(TimeNs now) {
    is_sampling_rtt_ = pto_count_ == 0;
    rtt_sample_psn_ = resend_psn_;
    sent_at_ = now;
    ++resend_psn_;
    resend_request_ = resend_psn_ != run_end_;
}

bool RcLossRecovery::on_response_gap(TimeNs now, Psn end) {
    if (!responses_missing_) {
        responses_missing_ = true;
        answered_end_ = end;
        ask_from_ = window_.una_psn();
        read_retries_.clear();
        sent_at_ = now;
        recent_loss_ = true;
        loss_seen_at_ = now;
        pto_count_ = 0;
        return true;
    }
    if (end.distance(answered_end_) <= 0) {
        return false;
    }
    answered_end_ = end;
    return true;
}

bool RcLossRecovery::on_window_advanced(TimeNs now) {
    const Psn una = window_.una_psn();
    if (is_sampling_rtt_ && una.distance(rtt_sample_psn_) > 0) {
        sample(now);
    }
    if (una.distance(answered_end_) >= 0) {
        responses_missing_ = false;
    }
    return !responses_missing_;
}

Psn RcLossRecovery::retry_begin() const {
    return ask_from_.distance(window_.una_psn()) > 0 ? ask_from_ : window_.una_psn();
}

// From the cursor on requests go again anyhow.
Psn RcLossRecovery::retry_end() const {
    const Psn cursor = window_.cursor_psn();
    return cursor.distance(answered_end_) < 0 ? cursor : answered_end_;
}

void RcLossRecovery::on_read_retry_sent(TimeNs now, const InflightWqe& wqe, Psn gap, Psn end) {
    read_retries_.add(window_.una_psn(), wqe.first_psn, gap, end);
    if (!is_sampling_rtt_) {
        is_sampling_rtt_ = pto_count_ == 0;
        rtt_sample_psn_ = gap;
    }
    sent_at_ = now;
}

// What comes sooner than half of the shortest answer ever is none to what was sent again: packets overtook
// each other, and what was missing has reached the peer meanwhile.
bool RcLossRecovery::can_be_answer(TimeNs now) const { return now - sent_at_ >= min_rtt_ns_ / 2; }

void RcLossRecovery::sample(TimeNs now) {
    is_sampling_rtt_ = false;
    max_rtt_ns_ = std::max(now - sent_at_, max_rtt_ns_ - max_rtt_ns_ / 8);
}

TimeNs RcLossRecovery::pto_ns(TimeNs longest_ns) const {
    return std::min(wait_ns(max_rtt_ns_, pto_count_), longest_ns);
}

TimeNs RcLossRecovery::deadline(TimeNs ack_overdue_since, TimeNs answer_ns, TimeNs longest_ns) const {
    if (pto_count_ >= kMaxPtoCount || resend_request_) {
        return kNever;
    }
    if (request_missing_ || awaiting_probe_ || responses_missing_) {
        return std::max(sent_at_, waits_from_) + pto_ns(longest_ns);
    }
    if (!recent_loss_ || ack_overdue_since == kNever) {
        return kNever;
    }
    const TimeNs wait = std::min(wait_ns(std::max(max_rtt_ns_, answer_ns), pto_count_), longest_ns);
    return std::max({ack_overdue_since, sent_at_, waits_from_}) + wait;
}

bool RcLossRecovery::on_probe_timeout(TimeNs now) {
    ++pto_count_;
    sent_at_ = now;
    is_sampling_rtt_ = false;
    ask_from_ = window_.una_psn();
    read_retries_.clear();
    if (request_missing_) {
        resend_request_ = true;
        resend_psn_ = nak_psn_;
        run_end_ = nak_psn_ + 1;
    } else if (awaiting_probe_ && peer_ != PeerRecovery::kSelective) {
        return false;
    } else if (!responses_missing_ && window_.cursor_psn() != window_.una_psn()) {
        const std::uint8_t tries = pto_count_;
        open(loss_seen_at_, window_.una_psn(), 1);
        pto_count_ = tries;
        spurious_possible_ = true;
    }
    return true;
}

}  // namespace urnic
