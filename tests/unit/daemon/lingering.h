// A descriptor whose close() waits for somebody.
#pragma once

#include "os/unique_fd.h"

namespace urnic::daemon {

/// A TCP connection that lingers over data that its peer does not read.
struct Lingering {
    UniqueFd end;   // close() waits for an hour
    UniqueFd peer;  // or until this is closed
};

[[nodiscard]] Lingering make_lingering();

}  // namespace urnic::daemon
