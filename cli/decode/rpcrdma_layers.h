// Transport headers of RPC-over-RDMA as layers of named values.
#pragma once

#include "rnic/wire/dissect/describe.h"
#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/codec/private_data.h"

namespace urnic::decode {

/// Every field of a header that decoded (`fault` is nullptr); of others the fixed part and what is wrong.
[[nodiscard]] wire::Layer rpcrdma_layer(const rpcrdma::Header& header, const char* fault);

/// Returns whether that layer is of a header that did not decode.
[[nodiscard]] bool has_fault(const wire::Layer& layer);

[[nodiscard]] wire::Layer private_data_layer(const rpcrdma::PrivateData& data);

}  // namespace urnic::decode
