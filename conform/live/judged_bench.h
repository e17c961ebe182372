// What a bench has beside the QP and the wire so that judge() can play cases on it one after the other.
#pragma once

#include <vector>

#include "conform/case/bench.h"

namespace urnic::conform {

/// A frame of the conversation, as evidence.
struct TracedFrame {
    TimeNs time = 0;
    bool is_ours = false;
    FrameBytes bytes;
};

class JudgedBench : public Bench {
  public:
    /// Forgets what was; the case has to end by then.
    virtual void begin_case(TimeNs limit_ns) = 0;
    /// Nothing of the case is left at the device.
    virtual void end_case() = 0;
    /// By how much the tester's own waits ended too late at most since begin_case(): what else ran on its
    /// machine held it up.
    [[nodiscard]] virtual TimeNs held_up_ns() const { return 0; }
    /// The frames of the case.
    [[nodiscard]] virtual const std::vector<TracedFrame>& trace() const = 0;
};

}  // namespace urnic::conform
