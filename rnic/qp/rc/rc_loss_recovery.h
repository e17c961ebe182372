// Which requests an RC requester sends again when packets were lost, if it does not simply go back to the
// oldest one (docs/adr/0007). A PSN sequence NAK names the first request that the peer misses: that one goes
// again alone. What the peer acknowledges then shows whether it held the requests behind it; towards a peer
// that discards them the requester goes back N as usual. READ and atomic responses that are missing are asked
// for again, and no others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "rnic/qp/rc/read_retry_ranges.h"
#include "rnic/qp/rc/send_window.h"

namespace urnic {

class RcLossRecovery {
  public:
    explicit RcLossRecovery(const SendWindow& window) : window_(window) {}

    /// As new. Not `selective`: the requester always goes back N, and nothing here is ever active.
    void reset(bool selective);
    [[nodiscard]] bool is_selective() const { return selective_; }
    /// Something is missing at the peer or here, or was a short while ago.
    [[nodiscard]] bool active() const {
        return request_missing_ || awaiting_probe_ || going_back_ || responses_missing_ || recent_loss_;
    }
    /// Everything goes again from the oldest request on; responses that came early stay of use.
    void cancel(TimeNs now);
    void on_progress() { pto_count_ = 0; }
    /// The answer to what was sent once took so long.
    void on_rtt_sample(TimeNs took_ns) {
        min_rtt_ns_ = min_rtt_ns_ == 0 ? took_ns : std::min(min_rtt_ns_, took_ns);
    }
    /// When something was sent again last.
    [[nodiscard]] TimeNs sent_at() const { return sent_at_; }
    /// cancel(), because requests are missing: the next acknowledgements show what the peer held.
    void cancel_after_loss(TimeNs now);

    // --- Requests
    // ---------------------------------------------------------------------------------------------
    /// The peer misses the request with this PSN. False: go back N.
    [[nodiscard]] bool on_sequence_nak(TimeNs now, Psn psn);
    /// An acknowledgement of what was acknowledged before came again, though requests beyond `end` are under
    /// way: a peer that holds early requests says so that it still misses the one at `end`. One that discards
    /// says it only of duplicates, shortly after something was sent again.
    void on_duplicate_ack(TimeNs now, Psn end, TimeNs longest_ns);
    /// The peer acknowledged everything before `end`; `cursor` is where the window's cursor was. False: it
    /// discarded what was behind the missing request; go back N.
    [[nodiscard]] bool on_ack(TimeNs now, Psn end, Psn cursor, bool is_plain_ack);
    /// The request at resend_psn() is to be sent again.
    [[nodiscard]] bool must_resend_request() const { return resend_request_; }
    [[nodiscard]] Psn resend_psn() const { return resend_psn_; }
    void on_request_resent(TimeNs now);

    // --- Responses
    // --------------------------------------------------------------------------------------------
    /// The peer answered everything before `end`, and a response before it has not come. True: it has carried
    /// out more than it had.
    bool on_response_gap(TimeNs now, Psn end);
    [[nodiscard]] bool responses_missing() const { return responses_missing_; }
    /// While responses are missing: the peer carried out everything before this.
    [[nodiscard]] Psn answered_end() const { return answered_end_; }
    /// The window moved; true when nothing is missing any more.
    bool on_window_advanced(TimeNs now);
    /// Of each READ or atomic in [retry_begin(), retry_end()) the first gap is to be asked for again, if it
    /// was not.
    [[nodiscard]] Psn retry_begin() const;
    [[nodiscard]] Psn retry_end() const;
    [[nodiscard]] bool is_retry_pending(Psn gap) const { return read_retries_.contains(gap); }
    /// The responses [hole, end) of `record` were asked for again.
    void on_read_retry_sent(TimeNs now, const InflightWqe& wqe, Psn gap, Psn end);
    /// There is nothing to ask for before `psn`.
    void set_retry_cursor(Psn psn) { ask_from_ = psn; }
    /// A response came: it may be the last of a gap, behind which there is another one.
    void on_response(Psn psn) {
        if (read_retries_.contains(psn)) {
            ask_from_ = window_.una_psn();
        }
    }

    // --- Time
    // -------------------------------------------------------------------------------------------------
    /// When on_probe_timeout() wants to be called: something that was sent again got no answer, or, on a wire
    /// that was seen to lose packets, nothing has come since `ack_overdue_since` though an answer is owed
    /// (kNever: none is), which took `answer_ns` at most of late. At most `longest_ns` (the ACK timeout) from
    /// then.
    [[nodiscard]] TimeNs deadline(TimeNs ack_overdue_since, TimeNs answer_ns, TimeNs longest_ns) const;
    /// The packet or its answer is lost too: it goes once more. False: go back N.
    [[nodiscard]] bool on_probe_timeout(TimeNs now);
    /// Whatever on_probe_timeout() was to be called for gets its time anew.
    void restart_timer(TimeNs now) { waits_from_ = now; }

    /// Something is to be sent again now.
    [[nodiscard]] bool has_work() const {
        return resend_request_ || (responses_missing_ && retry_begin().distance(retry_end()) < 0);
    }
    /// The WQE that a PSN of the window belongs to.
    [[nodiscard]] std::uint32_t index_of(Psn psn) const;

  private:
    // What the peer does with requests that come early.
    enum class PeerRecovery : std::uint8_t { kUnknown, kSelective, kGoBackN };

    void open(TimeNs now, Psn psn, std::uint32_t num_packets);
    [[nodiscard]] bool is_selective_after_failed_probe();
    [[nodiscard]] bool can_be_answer(TimeNs now) const;
    void sample(TimeNs now);
    [[nodiscard]] TimeNs pto_ns(TimeNs longest_ns) const;

    const SendWindow& window_;
    bool selective_ = false;
    PeerRecovery peer_ = PeerRecovery::kUnknown;
    std::uint8_t failed_probes_ = 0;  // answers in a row that what follows a run is missing as well
    std::uint8_t dup_acks_ = 0;       // acknowledgements repeated at once, see on_duplicate_ack()
    std::uint8_t pto_count_ = 0;      // since the last progress
    bool request_missing_ = false;    // the peer misses nak_psn_
    bool resend_request_ = false;     // and it was not sent again yet
    bool awaiting_probe_ = false;     // whether it held probe_psn_, the next request, is not known yet
    bool probe_by_ack_ = false;       // an ACK up to there alone says that it did not
    bool spurious_possible_ = false;  // nobody said that nak_psn_ is missing: it may be late
    bool going_back_ = false;  // went back N after a loss: up to go_back_end_ an ACK shows whether it held
    bool responses_missing_ = false;
    bool recent_loss_ = false;      // the last loss was seen at loss_seen_at_, not long ago
    bool is_sampling_rtt_ = false;  // until rtt_sample_psn_ is answered
    Psn nak_psn_;                   // the oldest of the run that was not acknowledged yet
    Psn run_first_;                 // the run: requests that go again together, [run_first_, run_end_)
    Psn run_end_;
    Psn resend_psn_;  // what goes next of it
    Psn probe_psn_;
    Psn go_back_end_;
    Psn answered_end_;
    Psn ask_from_;
    ReadRetryRanges read_retries_;
    Psn rtt_sample_psn_;
    TimeNs loss_seen_at_ = 0;
    TimeNs min_rtt_ns_ = 0;  // 0: none was measured
    TimeNs sent_at_ = 0;     // what was sent again last
    TimeNs waits_from_ = 0;  // for its answer, if that is later
    TimeNs max_rtt_ns_ = 0;  // how long an answer to it takes, rather too long than too short
};

}  // namespace urnic
