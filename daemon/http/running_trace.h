// What the control thread and the thread of HTTP tell each other of QPs that somebody looks at.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "daemon/http/qp_path.h"
#include "os/memfd.h"

namespace urnic::daemon {

/// One QP's packets, WQEs and completions come into a ring (abi/capture.h), which the thread of HTTP reads.
struct RunningTrace {
    TracedQp qp;
    std::shared_ptr<const Memfd> ring;  // nullptr: `problem` says why there is none
    std::string problem;
    std::uint16_t rnic = 0;  // as records have it
    bool is_infiniband = false;
    bool is_gone = false;  // the QP: nothing comes any more
    TimeNs began_ns = 0;
};
using RunningTraces = std::vector<RunningTrace>;
using WantedTraces = std::vector<TracedQp>;

}  // namespace urnic::daemon
