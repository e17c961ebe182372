#include "rnic/qp/rc/rc_loss_recovery.h"

#include <algorithm>

namespace urnic {

namespace {

// Before an answer was measured.
constexpr TimeNs kFirstAnswerNs = 50'000;
// An answer may take this much longer than twice the longest of late.
constexpr TimeNs kSlackNs = 16'000;
// A peer that held requests is one that discards when runs of 1, 2, 4 ... 128 packets, together the window
// (kMaxInFlightPackets), were each followed by a missing one.
constexpr std::uint8_t kMostStrikes = 7;
// How often something goes again without a sign of life; then the ACK timeout decides. The wait doubles.
constexpr std::uint8_t kMaxTries = 4;
// For how long after a loss silence is taken for another one.
constexpr TimeNs kLossyNs = 1'000'000'000;

constexpr TimeNs wait_ns(TimeNs answer_ns, std::uint8_t tries) { return (2 * answer_ns + kSlackNs) << tries; }

}  // namespace

void RcRepair::reset(bool selective) {
    selective_ = selective;
    peer_ = Peer::kUnknown;
    answer_ns_ = kFirstAnswerNs;
    least_answer_ns_ = 0;
    tries_ = 0;
    responses_missing_ = lossy_ = false;
    cancel(0);
}

void RcRepair::cancel(TimeNs now) {
    sent_at_ = now;
    nak_open_ = resend_request_ = probing_ = rewound_ = measuring_ = false;
    strikes_ = 0;  // tries_ stays: a peer that was silent up to the ACK timeout is not asked more often
}

void RcRepair::cancel_after_loss(TimeNs now) {
    cancel(now);
    tries_ = 0;
    loss_seen_at_ = now;
    lossy_ = selective_;
    rewound_ = selective_;
    rewound_end_ = window_.sent_end();
}

std::uint32_t RcRepair::index_of(Psn psn) const {
    std::uint32_t index = window_.una_index();
    while (psn.distance(window_.at(index).last_psn()) > 0) {
        ++index;
    }
    return index;
}

// A run of `num_packets` from `psn` on is to go again, or as many as were sent. A READ or atomic is a run of
// its own: it is acknowledged in parts.
void RcRepair::open(TimeNs now, Psn psn, std::uint32_t num_packets) {
    lossy_ = true;
    loss_seen_at_ = now;
    nak_open_ = true;
    nak_psn_ = run_first_ = resend_psn_ = psn;
    resend_request_ = true;
    tries_ = reminders_ = 0;
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
    probing_ = window_.sent_end().distance(probe_psn_) > 0;
    suspected_ = false;
}

// A run was answered, and what follows it is missing as well: the peer discards it, or it was lost.
bool RcRepair::may_hold() {
    // Once it was seen to hold requests, the next one may as well have been lost on its own.
    if (peer_ == Peer::kHolds && ++strikes_ <= kMostStrikes) {
        return true;
    }
    peer_ = Peer::kDiscards;
    return false;
}

bool RcRepair::miss_request(TimeNs now, Psn psn) {
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
    if (nak_open_ && psn.distance(run_first_) > 0 && psn.distance(run_end_) < 0) {
        return true;  // it has gone again already, or goes next
    }
    const bool is_next = probing_ && psn == probe_psn_;
    strikes_ = is_next ? strikes_ : 0;
    if (peer_ == Peer::kDiscards || (is_next && !may_hold())) {
        return false;
    }
    open(now, psn, 1U << strikes_);
    return true;
}

void RcRepair::remind(TimeNs now, Psn end, TimeNs longest_ns) {
    // What comes before anything that was sent again can have been answered, no duplicate has drawn. One of
    // them the NAK may have overtaken.
    if (nak_open_ && peer_ == Peer::kUnknown && !suspected_ && tries_ == 0 && !may_be_answer(now) &&
        ++reminders_ == 2) {
        peer_ = Peer::kHolds;
    }
    if (!selective_ || resend_request_ || window_.cursor_psn().distance(end) <= 0 ||
        (nak_open_ && now < sent_at_ + patience_ns(longest_ns))) {
        return;
    }
    // On a wire that loses nothing it comes unasked, with new credits (IBA 9.7.7.2).
    if (peer_ != Peer::kHolds && !lossy_) {
        return;
    }
    // One that discards says this only of what was sent again. When that is long over, it holds after all:
    // two losses in a row look like discarding.
    if (peer_ == Peer::kDiscards &&
        (window_.cursor_psn() != window_.sent_end() || now < loss_seen_at_ + 2 * patience_ns(longest_ns))) {
        return;
    }
    peer_ = peer_ == Peer::kDiscards ? Peer::kUnknown : peer_;
    open(now, end, 1);
}

bool RcRepair::acknowledge(TimeNs now, Psn end, Psn cursor, bool is_plain_ack) {
    if (measuring_ && end.distance(measured_psn_) > 0) {
        sample(now);
    }
    if (nak_open_ && end.distance(nak_psn_) > 0) {
        nak_open_ = end.distance(run_end_) < 0;
        nak_psn_ = end;
        resend_psn_ = end.distance(resend_psn_) > 0 ? end : resend_psn_;
        resend_request_ = resend_request_ && nak_open_;
        tries_ = 0;
    }
    if (rewound_) {
        if (end.distance(cursor) > 0 && may_be_answer(now)) {
            peer_ = Peer::kHolds;
        }
        rewound_ = peer_ != Peer::kHolds && end.distance(rewound_end_) < 0;
    }
    if (probing_) {
        const std::int32_t beyond = end.distance(probe_psn_);
        if (beyond > 0) {
            // After a suspicion the rest may have come as well; what seemed to discard gets another chance.
            if (suspected_) {
                peer_ = peer_ == Peer::kDiscards ? Peer::kUnknown : peer_;
            } else if (may_be_answer(now)) {
                peer_ = Peer::kHolds;
            }
            probing_ = false;
            strikes_ = 0;
        } else if (beyond == 0 && suspected_ && strikes_ == 0 && peer_ != Peer::kHolds) {
            // What was suspected to be lost, or late: silence will tell.
            probing_ = false;
            strikes_ = 1;
        } else if (beyond == 0 && is_plain_ack && probe_by_ack_) {
            // A peer that holds may have had to repeat itself, and the next request be lost as well.
            if (!may_hold()) {
                return false;
            }
            open(now, end, 1U << strikes_);
        }
    }
    lossy_ = lossy_ && now - loss_seen_at_ < kLossyNs;
    return true;
}

void RcRepair::request_sent(TimeNs now) {
    measuring_ = tries_ == 0;
    measured_psn_ = resend_psn_;
    sent_at_ = now;
    ++resend_psn_;
    resend_request_ = resend_psn_ != run_end_;
}

bool RcRepair::miss_responses(TimeNs now, Psn end) {
    if (!responses_missing_) {
        responses_missing_ = true;
        answered_end_ = end;
        ask_from_ = window_.una_psn();
        asked_gaps_.clear();
        sent_at_ = now;
        lossy_ = true;
        loss_seen_at_ = now;
        tries_ = 0;
        return true;
    }
    if (end.distance(answered_end_) <= 0) {
        return false;
    }
    answered_end_ = end;
    return true;
}

bool RcRepair::settle_responses(TimeNs now) {
    const Psn una = window_.una_psn();
    if (measuring_ && una.distance(measured_psn_) > 0) {
        sample(now);
    }
    if (una.distance(answered_end_) >= 0) {
        responses_missing_ = false;
    }
    return !responses_missing_;
}

Psn RcRepair::ask_from() const {
    return ask_from_.distance(window_.una_psn()) > 0 ? ask_from_ : window_.una_psn();
}

// From the cursor on requests go again anyhow.
Psn RcRepair::ask_end() const {
    const Psn cursor = window_.cursor_psn();
    return cursor.distance(answered_end_) < 0 ? cursor : answered_end_;
}

void RcRepair::asked(TimeNs now, const SendRecord& record, Psn hole, Psn end) {
    asked_gaps_.add(window_.una_psn(), record.first_psn, hole, end);
    if (!measuring_) {
        measuring_ = tries_ == 0;
        measured_psn_ = hole;
    }
    sent_at_ = now;
}

// What comes sooner than half of the shortest answer ever is none to what was sent again: packets overtook
// each other, and what was missing has reached the peer meanwhile.
bool RcRepair::may_be_answer(TimeNs now) const { return now - sent_at_ >= least_answer_ns_ / 2; }

void RcRepair::sample(TimeNs now) {
    measuring_ = false;
    answer_ns_ = std::max(now - sent_at_, answer_ns_ - answer_ns_ / 8);
}

TimeNs RcRepair::patience_ns(TimeNs longest_ns) const {
    return std::min(wait_ns(answer_ns_, tries_), longest_ns);
}

TimeNs RcRepair::deadline(TimeNs silent_since, TimeNs answer_ns, TimeNs longest_ns) const {
    if (tries_ >= kMaxTries || resend_request_) {
        return kNever;
    }
    if (nak_open_ || probing_ || responses_missing_) {
        return std::max(sent_at_, waits_from_) + patience_ns(longest_ns);
    }
    if (!lossy_ || silent_since == kNever) {
        return kNever;
    }
    const TimeNs wait = std::min(wait_ns(std::max(answer_ns_, answer_ns), tries_), longest_ns);
    return std::max({silent_since, sent_at_, waits_from_}) + wait;
}

bool RcRepair::expire(TimeNs now) {
    ++tries_;
    sent_at_ = now;
    measuring_ = false;
    ask_from_ = window_.una_psn();
    asked_gaps_.clear();
    if (nak_open_) {
        resend_request_ = true;
        resend_psn_ = nak_psn_;
        run_end_ = nak_psn_ + 1;
    } else if (probing_ && peer_ != Peer::kHolds) {
        return false;
    } else if (!responses_missing_ && window_.cursor_psn() != window_.una_psn()) {
        const std::uint8_t tries = tries_;
        open(loss_seen_at_, window_.una_psn(), 1);
        tries_ = tries;
        suspected_ = true;
    }
    return true;
}

}  // namespace urnic
