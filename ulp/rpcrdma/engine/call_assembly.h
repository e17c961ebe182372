/// Puts a Call together: inline octets and Read chunks, in the order of the payload stream before anything
/// was taken out (RFC 8166, section 3.4.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/codec/header.h"
#include "ulp/rpcrdma/engine/config.h"
#include "ulp/rpcrdma/engine/outbox.h"

namespace urnic::rpcrdma {

/// What the chunk lists of a Call say against a rule or a limit, before any memory or RDMA is used.
enum class CallFault : std::uint8_t {
    kNone,
    kBadXdr,      ///< Position-Zero chunk with MSG or none with NOMSG, positions beyond the stream, addresses
                  ///< that wrap
    kReadChunks,  ///< more Read chunks than are taken
    kWriteChunks,    ///< more Write chunks than are taken
    kNoWriteChunks,  ///< none is taken: there is an error of its own (draft, 7.2.4)
    kSegments,       ///< a chunk with more segments than are taken
    kTooLong,        ///< the Call is longer than is taken
};

/// Checks; sets the octets of the Call with everything in place.
[[nodiscard]] CallFault check_call(const Header& header, std::size_t payload_octets, const Limits& limits,
                                   std::uint64_t& call_octets);

/// Copies what is inline into `call`, pads, and has the outbox read what is in chunks. Only for what
/// check_call() accepts, with a buffer of call_octets. Returns the number of RDMA READs.
std::uint32_t assemble_call(const Header& header, std::span<const std::byte> payload,
                            std::span<std::byte> call, std::uint32_t id, Outbox& outbox);

}  // namespace urnic::rpcrdma
