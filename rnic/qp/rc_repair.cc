#include "rnic/qp/rc_repair.h"

#include <algorithm>

namespace urnic {

namespace {

// Before an answer was measured.
constexpr TimeNs kFirstAnswerNs = 50'000;
// An answer may take this much longer than twice the longest of late.
constexpr TimeNs kSlackNs = 16'000;
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

void RcRepair::open(TimeNs now, Psn psn) {
    const SendRecord& record = window_.at(index_of(psn));
    lossy_ = true;
    loss_seen_at_ = now;
    nak_open_ = true;
    nak_psn_ = psn;
    resend_request_ = true;
    tries_ = 0;
    probe_psn_ = record.has_response ? record.last_psn() + 1 : psn + 1;
    probing_ = window_.sent_end().distance(probe_psn_) > 0;
    probe_by_ack_ = !record.has_response;
    suspected_ = false;
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
    const bool is_next = probing_ && psn == probe_psn_;
    strikes_ = is_next ? static_cast<std::uint8_t>(strikes_ + 1) : 0;
    // Once it was seen to hold requests, the next one may as well have been lost on its own.
    if (is_next && (peer_ != Peer::kHolds || strikes_ > 1)) {
        peer_ = Peer::kDiscards;
    }
    if (peer_ == Peer::kDiscards) {
        return false;
    }
    open(now, psn);
    return true;
}

void RcRepair::remind(TimeNs now, Psn end, TimeNs longest_ns) {
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
    open(now, end);
}

bool RcRepair::acknowledge(TimeNs now, Psn end, Psn cursor, bool is_plain_ack) {
    if (measuring_ && end.distance(measured_psn_) > 0) {
        sample(now);
    }
    if (nak_open_ && end.distance(nak_psn_) > 0) {
        nak_open_ = resend_request_ = false;
        tries_ = 0;
    }
    if (rewound_) {
        if (end.distance(cursor) > 0) {
            peer_ = Peer::kHolds;
        }
        rewound_ = peer_ != Peer::kHolds && end.distance(rewound_end_) < 0;
    }
    if (probing_) {
        const std::int32_t beyond = end.distance(probe_psn_);
        if (beyond > 0) {
            // After a suspicion the rest may have come as well; what seemed to discard gets another chance.
            peer_ = !suspected_ ? Peer::kHolds : peer_ == Peer::kDiscards ? Peer::kUnknown : peer_;
            probing_ = false;
            strikes_ = 0;
        } else if (beyond == 0 && suspected_ && strikes_ == 0 && peer_ != Peer::kHolds) {
            // What was suspected to be lost, or late: silence will tell.
            probing_ = false;
            strikes_ = 1;
        } else if (beyond == 0 && is_plain_ack && probe_by_ack_) {
            // A peer that holds may have had to repeat itself, and the next request be lost as well.
            if (peer_ != Peer::kHolds || ++strikes_ > 1) {
                peer_ = Peer::kDiscards;
                return false;
            }
            open(now, end);
        }
    }
    lossy_ = lossy_ && now - loss_seen_at_ < kLossyNs;
    return true;
}

void RcRepair::request_sent(TimeNs now) {
    resend_request_ = false;
    measuring_ = tries_ == 0;
    measured_psn_ = nak_psn_;
    sent_at_ = now;
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
        return sent_at_ + patience_ns(longest_ns);
    }
    if (!lossy_ || silent_since == kNever) {
        return kNever;
    }
    const TimeNs wait = std::min(wait_ns(std::max(answer_ns_, answer_ns), tries_), longest_ns);
    return std::max(silent_since, sent_at_) + wait;
}

bool RcRepair::expire(TimeNs now) {
    ++tries_;
    sent_at_ = now;
    measuring_ = false;
    ask_from_ = window_.una_psn();
    asked_gaps_.clear();
    if (nak_open_) {
        resend_request_ = true;
    } else if (probing_ && peer_ != Peer::kHolds) {
        return false;
    } else if (!responses_missing_ && window_.cursor_psn() != window_.una_psn()) {
        const std::uint8_t tries = tries_;
        open(loss_seen_at_, window_.una_psn());
        tries_ = tries;
        suspected_ = true;
    }
    return true;
}

}  // namespace urnic
