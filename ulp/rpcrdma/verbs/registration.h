/// When memory that is not of the pool is copied, and when it is registered for one RPC.
#pragma once

#include <cstddef>

namespace urnic::rpcrdma {

/// Up to so many octets copying takes less time than ibv_reg_mr() and ibv_dereg_mr() (bench/rpcrdma).
inline constexpr std::size_t kMostCopiedOctets = 65536;

}  // namespace urnic::rpcrdma
