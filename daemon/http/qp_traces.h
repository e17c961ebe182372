// The QPs that somebody looks at, as the thread of HTTP keeps them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "daemon/http/qp_trace.h"
#include "daemon/http/running_trace.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

/// A QP is traced while its page asks, and few of them are at once. However many look at one, its text is
/// made twice a second.
class QpTraces {
  public:
    static constexpr TimeNs kPatienceNs = 5 * kSecondNs;
    static constexpr TimeNs kTextNs = kSecondNs / 2;

    /// `most`: of them at once; 0: none is to be traced.
    explicit QpTraces(std::size_t most) : most_(most) {}

    [[nodiscard]] std::size_t most() const { return most_; }
    [[nodiscard]] bool is_empty() const { return traces_.empty(); }
    /// Somebody looks at that one. Returns false when as many others are looked at as can be.
    [[nodiscard]] bool ask(const TracedQp& qp, TimeNs now);
    /// Forgets those that nobody has asked for in a while. Returns whether there was one.
    [[nodiscard]] bool forget_late(TimeNs now);
    [[nodiscard]] WantedTraces wanted() const;

    struct Answer {
        std::shared_ptr<const std::string> text;  // nullptr: not yet, or never because of `problem`
        std::string problem;
    };
    /// `running`: as the control thread has told.
    [[nodiscard]] Answer answer(const TracedQp& qp, const RunningTraces& running, TimeNs now);

  private:
    struct Entry {
        TracedQp qp;
        TimeNs asked_ns = 0;
        std::shared_ptr<const Memfd> ring;  // that `trace` reads: the QP may be traced anew by another
        std::unique_ptr<QpTrace> trace;
        std::shared_ptr<const std::string> text;
        TimeNs made_ns = 0;
    };
    [[nodiscard]] std::vector<Entry>::iterator find(const TracedQp& qp);

    std::size_t most_;
    std::vector<Entry> traces_;
};

}  // namespace urnic::daemon
