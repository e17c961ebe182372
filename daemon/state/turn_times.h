// How long the control thread is at one thing, in which nobody else is served.
#pragma once

#include <algorithm>
#include <cstdint>

#include "os/monotonic_clock.h"
#include "rnic/device/message_histograms.h"

namespace urnic::daemon {

/// A turn that begins now.
struct TurnBegin {
    TimeNs at_ns = clock_now();
    TimeNs cpu_ns = thread_cpu_now();
};

/// Turns of one kind since the daemon's start. The control thread's own.
class TurnTimes {
  public:
    using Times = Log2Histogram<14, 30>;  // 16 us to 1.07 s
    /// What a turn is meant to end before.
    static constexpr TimeNs kLongNs = 2'000'000;

    void add(TimeNs took_ns) {
        times_.add(took_ns);
        ++number_;
        num_long_ += took_ns > kLongNs ? 1 : 0;
        longest_ns_ = std::max(longest_ns_, took_ns);
    }
    void add(const TurnBegin& begin) {
        longest_cpu_ns_ = std::max(longest_cpu_ns_, thread_cpu_now() - begin.cpu_ns);
        add(clock_now() - begin.at_ns);
    }

    [[nodiscard]] const Times& times() const { return times_; }
    [[nodiscard]] std::uint64_t number() const { return number_; }
    [[nodiscard]] std::uint64_t num_long() const { return num_long_; }
    [[nodiscard]] TimeNs longest_ns() const { return longest_ns_; }
    /// The same without the time in which the thread waited, or the kernel gave its processor to others.
    [[nodiscard]] TimeNs longest_cpu_ns() const { return longest_cpu_ns_; }

  private:
    Times times_;
    std::uint64_t number_ = 0;
    std::uint64_t num_long_ = 0;
    TimeNs longest_ns_ = 0;
    TimeNs longest_cpu_ns_ = 0;
};

struct ControlTurns {
    TurnTimes requests;  // of one connection, in one round
    TurnTimes steps;     // of a request that takes long, or of a client's end
    TurnTimes rounds;    // everything that waited, from one look at all to the next; without processor time
};

}  // namespace urnic::daemon
