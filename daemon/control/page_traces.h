// Traces of the QPs that somebody looks at on the daemon's page, as the control thread begins and ends them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/http/running_trace.h"
#include "daemon/state/control_state.h"

namespace urnic::daemon {

/// The control thread's own.
class PageTraces {
  public:
    explicit PageTraces(ControlState& control) : control_(control) {}

    /// From now on these are traced, and no others. The list has each of them, or why it is not traced.
    [[nodiscard]] std::shared_ptr<const RunningTraces> update(const WantedTraces& wanted);

  private:
    struct Active {
        RunningTrace trace;
        std::uint32_t capture = 0;  // 0: it has none, or none any more
    };
    [[nodiscard]] Active begin(const TracedQp& qp);
    void end_capture(Active& active);
    [[nodiscard]] bool exists(const TracedQp& qp) const;

    ControlState& control_;
    std::vector<Active> active_;
};

}  // namespace urnic::daemon
