/// What clnt_call() and rpc_createerr say of an error of the transport's.
#pragma once

#include <rpc/rpc.h>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"

namespace urnic::rpcrdma::onc {

/// Errors of the transport that have a name here (draft, 7.2.4).
inline constexpr std::uint32_t kErrBadXdr = 2;  // ERR_CHUNK in version 1
inline constexpr std::uint32_t kErrWriteResource = 7;
inline constexpr std::uint32_t kErrReplyResource = 8;

/// `error`: of rpcrdma_call(), not 0.
[[nodiscard]] rpc_err call_error(int error, const rpcrdma_reply& reply);

/// Sets rpc_createerr for the calling thread.
void set_create_error(clnt_stat status, int error);

}  // namespace urnic::rpcrdma::onc
