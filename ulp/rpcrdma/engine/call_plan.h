/// How a Call travels: inline, with Read chunks, or whole in a Position-Zero Read chunk; and what room its
/// Reply gets (draft, sections 3 and 7.2; RFC 8166, section 3.5).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ulp/rpcrdma/engine/rpc_message.h"

namespace urnic::rpcrdma {

struct CallPlan {
    enum class Form : std::uint8_t {
        kInline,        ///< MSG, everything behind the header
        kReduced,       ///< MSG, items in Read chunks
        kPositionZero,  ///< NOMSG; the stream in a Position-Zero Read chunk, items in Read chunks if
                        ///< items_in_chunks
    };
    Form form = Form::kInline;
    bool items_in_chunks = false;
    /// Whether the memory for results is given as Write chunks; else results come with the stream of the
    /// Reply.
    bool write_chunks = false;
    /// Octets of the Reply chunk; 0: none.
    std::uint64_t reply_chunk_octets = 0;
};

struct PlanLimits {
    std::uint32_t version = 2;
    std::uint32_t send_limit = 0;
    std::uint32_t receive_limit = 0;
    /// What the peer has refused for this Call (ERR_READ_CHUNKS, ERR_WRITE_CHUNKS).
    bool has_read_chunks = true;
    bool has_write_chunks = true;
    /// The Reply chunk that the peer asked for (ERR_REPLY_RESOURCE); 0: no such word.
    std::uint64_t least_reply_chunk = 0;
};

[[nodiscard]] CallPlan plan_call(const CallRequest& call, const PlanLimits& limits);

/// Octet of item `index` in the stream before anything was taken out (Read chunk position).
[[nodiscard]] std::uint64_t item_position(const RpcMessage& message, std::size_t index);

}  // namespace urnic::rpcrdma
