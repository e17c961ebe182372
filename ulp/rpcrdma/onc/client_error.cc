#include "ulp/rpcrdma/onc/client_error.h"

#include <cerrno>

namespace urnic::rpcrdma::onc {

namespace {

constexpr std::uint32_t kErrVers = 1;

clnt_stat status_of(int error, std::uint32_t error_code) {
    switch (error) {
        case ETIMEDOUT:
            return RPC_TIMEDOUT;
        case ENOMEM:
            return RPC_SYSTEMERROR;
        case EINVAL:
            return RPC_CANTSEND;
        case EMSGSIZE:
            // Without a word of the peer's it was not sent.
            return error_code == 0 ? RPC_CANTSEND : RPC_CANTRECV;
        case EPROTO:
            return error_code == kErrVers ? RPC_VERSMISMATCH : RPC_CANTRECV;
        default:
            return RPC_CANTRECV;
    }
}

}  // namespace

rpc_err call_error(int error, const rpcrdma_reply& reply) {
    rpc_err result{};
    result.re_status = status_of(error, reply.error_code);
    if (result.re_status == RPC_VERSMISMATCH) {
        result.re_vers.low = reply.error_first;
        result.re_vers.high = reply.error_second;
    } else {
        result.re_errno = error;
    }
    return result;
}

void set_create_error(clnt_stat status, int error) {
    rpc_createerr.cf_stat = status;
    rpc_createerr.cf_error = {};
    rpc_createerr.cf_error.re_status = status;
    rpc_createerr.cf_error.re_errno = error;
}

}  // namespace urnic::rpcrdma::onc
