/// The functions of a CLIENT, and how it is made.
#pragma once

#include "ulp/rpcrdma/onc/libtirpc.h"

namespace urnic::rpcrdma::onc {

[[nodiscard]] ClientOps* client_ops();

}  // namespace urnic::rpcrdma::onc
