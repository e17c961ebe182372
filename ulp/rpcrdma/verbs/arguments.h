/// What both sides of the C interface check in the same way.
#pragma once

#include <sys/socket.h>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"

namespace urnic::rpcrdma {

/// EINVAL: neither IPv4 nor IPv6.
[[nodiscard]] int copy_address(const sockaddr* from, sockaddr_storage& to);
/// As much as the program's structure has; EINVAL: its size is not set.
[[nodiscard]] int copy_statistics(const rpcrdma_statistics& from, rpcrdma_statistics* to);

}  // namespace urnic::rpcrdma
