// Device memory: pages of the daemon's that an application reaches through work requests, and by mapping
// them.
#pragma once

#include <cstdint>

#include "os/memfd.h"

namespace urnic::daemon {

/// Lives as long as one of the clients that share it has it.
struct DeviceMemory {
    Memfd file;
    std::uint64_t length_bytes = 0;  // as asked for; the file has whole pages
};

}  // namespace urnic::daemon
