// Which requests an RC requester sends again when packets were lost, if it does not simply go back to the
// oldest one (docs/adr/0007). A PSN sequence NAK names the first request that the peer misses: that one goes
// again alone. What the peer acknowledges then shows whether it held the requests behind it; towards a peer
// that discards them the requester goes back N as usual. READ and atomic responses that are missing are asked
// for again, and no others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "rnic/qp/rc/asked_gaps.h"
#include "rnic/qp/rc/send_window.h"

namespace urnic {

class RcRepair {
  public:
    explicit RcRepair(const SendWindow& window) : window_(window) {}

    /// As new. Not `selective`: the requester always goes back N, and nothing here is ever active.
    void reset(bool selective);
    [[nodiscard]] bool selective() const { return selective_; }
    /// Something is missing at the peer or here, or was a short while ago.
    [[nodiscard]] bool active() const {
        return nak_open_ || probing_ || rewound_ || responses_missing_ || lossy_;
    }
    /// Everything goes again from the oldest request on; responses that came early stay of use.
    void cancel(TimeNs now);
    void made_progress() { tries_ = 0; }
    /// The answer to what was sent once took so long.
    void measured_answer(TimeNs took_ns) {
        least_answer_ns_ = least_answer_ns_ == 0 ? took_ns : std::min(least_answer_ns_, took_ns);
    }
    /// When something was sent again last.
    [[nodiscard]] TimeNs sent_at() const { return sent_at_; }
    /// cancel(), because requests are missing: the next acknowledgements show what the peer held.
    void cancel_after_loss(TimeNs now);

    // --- Requests
    // ---------------------------------------------------------------------------------------------
    /// The peer misses the request with this PSN. False: go back N.
    [[nodiscard]] bool miss_request(TimeNs now, Psn psn);
    /// An acknowledgement of what was acknowledged before came again, though requests beyond `end` are under
    /// way: a peer that holds early requests says so that it still misses the one at `end`. One that discards
    /// says it only of duplicates, shortly after something was sent again.
    void remind(TimeNs now, Psn end, TimeNs longest_ns);
    /// The peer acknowledged everything before `end`; `cursor` is where the window's cursor was. False: it
    /// discarded what was behind the missing request; go back N.
    [[nodiscard]] bool acknowledge(TimeNs now, Psn end, Psn cursor, bool is_plain_ack);
    /// The request at request_psn() is to be sent again.
    [[nodiscard]] bool wants_request() const { return resend_request_; }
    [[nodiscard]] Psn request_psn() const { return resend_psn_; }
    void request_sent(TimeNs now);

    // --- Responses
    // --------------------------------------------------------------------------------------------
    /// The peer answered everything before `end`, and a response before it has not come. True: it has carried
    /// out more than it had.
    bool miss_responses(TimeNs now, Psn end);
    [[nodiscard]] bool responses_missing() const { return responses_missing_; }
    /// While responses are missing: the peer carried out everything before this.
    [[nodiscard]] Psn answered_end() const { return answered_end_; }
    /// The window moved; true when nothing is missing any more.
    bool settle_responses(TimeNs now);
    /// Of each READ or atomic in [ask_from(), ask_end()) the first gap is to be asked for again, if it was
    /// not.
    [[nodiscard]] Psn ask_from() const;
    [[nodiscard]] Psn ask_end() const;
    [[nodiscard]] bool was_asked(Psn hole) const { return asked_gaps_.contains(hole); }
    /// The responses [hole, end) of `record` were asked for again.
    void asked(TimeNs now, const SendRecord& record, Psn hole, Psn end);
    /// There is nothing to ask for before `psn`.
    void looked_up_to(Psn psn) { ask_from_ = psn; }
    /// A response came: it may be the last of a gap, behind which there is another one.
    void note_response(Psn psn) {
        if (asked_gaps_.contains(psn)) {
            ask_from_ = window_.una_psn();
        }
    }

    // --- Time
    // -------------------------------------------------------------------------------------------------
    /// When expire() wants to be called: something that was sent again got no answer, or, on a wire that was
    /// seen to lose packets, nothing has come since `silent_since` though an answer is owed (kNever: none
    /// is), which took `answer_ns` at most of late. At most `longest_ns` (the ACK timeout) from then.
    [[nodiscard]] TimeNs deadline(TimeNs silent_since, TimeNs answer_ns, TimeNs longest_ns) const;
    /// The packet or its answer is lost too: it goes once more. False: go back N.
    [[nodiscard]] bool expire(TimeNs now);
    /// Whatever expire() was to be called for gets its time anew.
    void wait_again(TimeNs now) { waits_from_ = now; }

    /// Something is to be sent again now.
    [[nodiscard]] bool has_work() const {
        return resend_request_ || (responses_missing_ && ask_from().distance(ask_end()) < 0);
    }
    /// The WQE that a PSN of the window belongs to.
    [[nodiscard]] std::uint32_t index_of(Psn psn) const;

  private:
    // What the peer does with requests that come early.
    enum class Peer : std::uint8_t { kUnknown, kHolds, kDiscards };

    void open(TimeNs now, Psn psn, std::uint32_t num_packets);
    [[nodiscard]] bool may_hold();
    [[nodiscard]] bool may_be_answer(TimeNs now) const;
    void sample(TimeNs now);
    [[nodiscard]] TimeNs patience_ns(TimeNs longest_ns) const;

    const SendWindow& window_;
    bool selective_ = false;
    Peer peer_ = Peer::kUnknown;
    std::uint8_t strikes_ = 0;     // answers in a row that what follows a run is missing as well
    std::uint8_t reminders_ = 0;   // acknowledgements repeated at once, see remind()
    std::uint8_t tries_ = 0;       // since the last progress
    bool nak_open_ = false;        // the peer misses nak_psn_
    bool resend_request_ = false;  // and it was not sent again yet
    bool probing_ = false;         // whether it held probe_psn_, the next request, is not known yet
    bool probe_by_ack_ = false;    // an ACK up to there alone says that it did not
    bool suspected_ = false;       // nobody said that nak_psn_ is missing: it may be late
    bool rewound_ = false;  // went back N after a loss: up to rewound_end_ an ACK shows whether it held
    bool responses_missing_ = false;
    bool lossy_ = false;      // the last loss was seen at loss_seen_at_, not long ago
    bool measuring_ = false;  // until measured_psn_ is answered
    Psn nak_psn_;             // the oldest of the run that was not acknowledged yet
    Psn run_first_;           // the run: requests that go again together, [run_first_, run_end_)
    Psn run_end_;
    Psn resend_psn_;  // what goes next of it
    Psn probe_psn_;
    Psn rewound_end_;
    Psn answered_end_;
    Psn ask_from_;
    AskedGaps asked_gaps_;
    Psn measured_psn_;
    TimeNs loss_seen_at_ = 0;
    TimeNs least_answer_ns_ = 0;  // 0: none was measured
    TimeNs sent_at_ = 0;          // what was sent again last
    TimeNs waits_from_ = 0;       // for its answer, if that is later
    TimeNs answer_ns_ = 0;        // how long an answer to it takes, rather too long than too short
};

}  // namespace urnic
