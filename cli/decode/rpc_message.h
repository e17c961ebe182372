// The front of an ONC RPC message (RFC 5531, section 9): what is called, or how it went.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rnic/wire/dissect/describe.h"
#include "ulp/rpcrdma/codec/header.h"

namespace urnic::decode {

/// What a Call names.
struct RpcProcedure {
    std::uint32_t program = 0;
    std::uint32_t version = 0;
    std::uint32_t procedure = 0;
};

struct RpcMessageFront {
    std::uint32_t xid = 0;
    rpcrdma::Direction direction = rpcrdma::Direction::kCall;
    std::uint32_t rpc_version = 0;               ///< Call
    RpcProcedure procedure;                      ///< Call
    std::uint32_t reply_status = 0;              ///< Reply: 0 accepted, 1 denied
    std::optional<std::uint32_t> accept_status;  ///< accepted Reply whose verifier is there whole
};

/// None if `octets` do not begin with a Call of RPC version 2, as far as its procedure, or with a Reply, as
/// far as its status.
[[nodiscard]] std::optional<RpcMessageFront> parse_rpc_message(std::span<const std::byte> octets);

/// `called`: what a Reply answers, if it is known.
[[nodiscard]] wire::Layer rpc_layer(const RpcMessageFront& message,
                                    const std::optional<RpcProcedure>& called);

}  // namespace urnic::decode
