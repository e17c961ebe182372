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
    /// A peer that goes back N repeats requests that were kept here and are executed by now. While
    /// `repeat_end` is the expected PSN it repeats everything before it, and has repeated what is before
    /// `repeated_end`.
    Psn repeat_end;
    Psn repeated_end;

    /// As new.
    void reset(Psn expected_psn) {
        state = State::kNone;
        end_repeat(expected_psn);
    }
    [[nodiscard]] bool is_open() const { return state != State::kNone; }

    void expect_repeat(Psn filled, Psn expected_psn) {
        repeat_end = expected_psn;
        repeated_end = filled + 1;
    }
    void end_repeat(Psn expected_psn) { repeat_end = expected_psn - 1; }
    [[nodiscard]] bool expects_repeat(Psn expected_psn) const { return repeat_end == expected_psn; }
};

}  // namespace urnic
