// What an RC responder knows of a gap in the peer's requests (IBA 9.7.5.1.2, docs/adr/0007).
//
//            a request behind the expected one             the next early request
//   kNone ---------------------------------> kNakSent <----------------------------- kNakDeferred
//     |                                         ^                                        ^
//     |  no receive WQE                         |  the expected request arrives, and     |  the same, and the
//     peer
//     +------------> kRnrNakSent                |  another one is missing behind it      |  seems to go back
//     N
//                                               +----------------------------------------+
//
// From every state the expected request leads to kNone, if no other one is missing then. From kNakSent on
// the responder sends no other NAK, and no acknowledgement of anything new, until the expected request
// arrives.
#pragma once

#include <cstdint>

#include "base/psn.h"

namespace urnic {

struct RequestGap {
    enum class State : std::uint8_t {
        kNone,
        kNakSent,      // PSN sequence error
        kNakDeferred,  // a peer that goes back N sends the missing request next, and needs no NAK for it
        kRnrNakSent,
    };

    State state = State::kNone;
    /// In every state but kNone: the highest PSN that arrived and was not executed.
    Psn highest_early_psn;
    /// A peer that goes back N repeats requests that were kept here and are executed by now: everything
    /// before `repeat_end`, of which it has repeated what is before `repeated_end`. That is over once another
    /// PSN is expected (end_past_repeat()): the same one comes back after 2^24 packets.
    bool is_repeat_expected = false;
    Psn repeat_end;
    Psn repeated_end;

    /// As new.
    void reset() {
        state = State::kNone;
        end_repeat();
    }
    [[nodiscard]] bool is_open() const { return state != State::kNone; }

    void expect_repeat(Psn filled, Psn expected_psn) {
        is_repeat_expected = true;
        repeat_end = expected_psn;
        repeated_end = filled + 1;
    }
    void end_repeat() { is_repeat_expected = false; }
    /// To be called for each acknowledgement.
    void end_past_repeat(Psn expected_psn) {
        is_repeat_expected = is_repeat_expected && repeat_end == expected_psn;
    }
    /// Returns whether the peer repeats what is before the expected PSN.
    [[nodiscard]] bool is_repeating(Psn expected_psn) const {
        return is_repeat_expected && repeat_end == expected_psn;
    }
};

}  // namespace urnic
