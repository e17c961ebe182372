// The whole daemon, put together from a configuration.
#pragma once

#include <span>

#include "daemon/config/config.h"

namespace urnic::daemon {

struct DaemonOptions {
    bool standalone = false;
    bool verbose = false;
    int ready_fd = -1;  // gets one byte once everything is served, and is closed
};

/// Serves until one of `stop_fds` becomes readable. Throws StartError or SetupError when it cannot start.
void serve(const Config& config, const DaemonOptions& options, std::span<const int> stop_fds);

}  // namespace urnic::daemon
