// Time that receivers take to copy payload out of a sender's memory (docs/adr/0035). With frames the sender
// copies it in a turn of his own, so without them he is the one who pays, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/worker/run_queue.h"

namespace urnic::dataplane {

/// Times are in the unit of RunQueue::charge().
class CopyCharge {
  public:
    /// `most`: what is charged at once; while packets were handled, the kernel may have given the CPU to
    /// others.
    explicit CopyCharge(std::int64_t most) : most_(most) {}

    /// What follows copies from that program's memory. `ticks()` is asked for the time only if that is
    /// another one.
    template <typename Ticks>
    void begin(ProgramShare& sender, Ticks&& ticks) {
        if (sender_ != &sender) {
            const std::uint64_t now = ticks();
            charge(now);
            sender_ = &sender;
            began_ = now;
        }
    }
    /// What follows does not. To be called before programs can go.
    template <typename Ticks>
    void end(Ticks&& ticks) {
        if (sender_ != nullptr) [[unlikely]] {
            charge(ticks());
            sender_ = nullptr;
        }
    }

  private:
    void charge(std::uint64_t now) {
        if (sender_ != nullptr) {
            sender_->copied += std::min(static_cast<std::int64_t>(now - began_), most_);
        }
    }

    std::int64_t most_;
    ProgramShare* sender_ = nullptr;
    std::uint64_t began_ = 0;
};

}  // namespace urnic::dataplane
