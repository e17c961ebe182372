// The kernel sees what comes for UDP port 4791, too, and would answer "port unreachable".
#pragma once

#include <vector>

#include "os/unique_fd.h"

namespace urnic::dataplane {

/// Sockets that own UDP port 4791 of the caller's network namespace and take nothing. None where somebody
/// else has the port: then the kernel is quiet as well. Throws SetupError.
[[nodiscard]] std::vector<UniqueFd> quiet_rocev2_port();

}  // namespace urnic::dataplane
