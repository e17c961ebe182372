// READ and atomic responses that an RC requester misses, and how they are requested again (docs/adr/0007).
//
//            a response or ACK behind a missing response
//   kIdle ------------------------------------------------> kGap
//     ^                                                     | ^  each READ with a gap in [retry_begin(),
//     retry_end()) |                                                     | |  is requested again from its
//     first missing response |      the window reaches answered_end()              +-+  on
//     (on_read_retry_sent), one gap of it at a time
//     +------------------------------------------------------+
//
//   una ........ retry_begin .............. retry_end .......... answered_end ........ sent_end
//   missing      searched so far            the cursor, if it    executed by the       requested
//                                           is before that       peer
//
// While there is a gap, responses that arrive early stay in a ReorderBuffer.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/time.h"
#include "rnic/qp/rc/probe_timer.h"
#include "rnic/qp/rc/read_retry_ranges.h"
#include "rnic/qp/rc/send_window.h"

namespace urnic {

class ResponseRecovery {
  public:
    enum class State : std::uint8_t { kIdle, kGap };

    ResponseRecovery(const SendWindow& window, ProbeTimer& timer) : window_(window), timer_(timer) {}

    /// As new.
    void reset() { state_ = State::kIdle; }

    /// The peer answered everything before `end`, and a response before it is missing. Returns whether the
    /// peer is seen to have executed more than before.
    bool on_gap(TimeNs now, Psn end);
    /// A response arrived: it may be the last of a gap, with another gap of the same READ behind it.
    void on_response(Psn psn) {
        if (retries_.contains(psn)) {
            retry_cursor_ = window_.una_psn();
        }
    }
    /// The window moved. Returns whether nothing is missing any more.
    bool on_window_advanced(TimeNs now);
    /// The responses [begin, end) of `wqe` were requested again.
    void on_read_retry_sent(TimeNs now, const InflightWqe& wqe, Psn begin, Psn end);
    /// The probe timer expired: every gap may be requested once more.
    void on_probe_timeout() { restart(); }

    [[nodiscard]] bool has_gap() const { return state_ == State::kGap; }
    /// With a gap: the peer has executed everything before this.
    [[nodiscard]] Psn answered_end() const { return answered_end_; }
    /// Returns whether a gap may have to be requested again.
    [[nodiscard]] bool has_work() const { return has_gap() && retry_begin() < retry_end(); }
    [[nodiscard]] Psn retry_begin() const {
        return retry_cursor_ > window_.una_psn() ? retry_cursor_ : window_.una_psn();
    }
    /// From the window's cursor on requests are sent again anyhow.
    [[nodiscard]] Psn retry_end() const {
        const Psn cursor = window_.cursor_psn();
        return cursor < answered_end_ ? cursor : answered_end_;
    }
    /// Returns whether the response was requested again and has not arrived.
    [[nodiscard]] bool is_retry_pending(Psn psn) const { return retries_.contains(psn); }
    /// There is no gap to be requested before `psn`.
    void set_retry_cursor(Psn psn) { retry_cursor_ = psn; }

  private:
    void restart() {
        retry_cursor_ = window_.una_psn();
        retries_.clear();
    }

    const SendWindow& window_;
    ProbeTimer& timer_;
    State state_ = State::kIdle;
    Psn answered_end_;
    Psn retry_cursor_;
    ReadRetryRanges retries_;
};

}  // namespace urnic
