/// What a connection of RPC-over-RDMA is told when it is made, and what it counts.
#pragma once

#include <cstdint>
#include <optional>

#include "ulp/rpcrdma/codec/private_data.h"
#include "ulp/rpcrdma/codec/properties.h"

namespace urnic::rpcrdma {

/// Who opened the connection.
enum class Role : std::uint8_t { kClient, kServer };

/// What a responder takes (all is checked before any RDMA).
struct Limits {
    std::uint32_t max_read_chunks = 8;
    std::uint32_t max_write_chunks = 8;
    /// Segments of one chunk.
    std::uint32_t max_segments = 16;
    /// Octets of a Call with its Read chunks in place, and of a Reply with all results.
    std::uint64_t max_call_octets = 65ULL << 20U;
    std::uint64_t max_reply_octets = 65ULL << 20U;
};

struct Config {
    Role role = Role::kClient;
    /// Bit N: version N is served or tried; both is 0b110.
    std::uint32_t versions = 1U << kVersion1 | 1U << kVersion2;
    /// Octets of each receive that is posted, from 4096 (draft, 3.3); RBSIZ of version 2.
    std::uint32_t receive_octets = kInlineThreshold2;
    /// The most that receives may grow to when the peer asks.
    std::uint32_t max_receive_octets = 65536;
    /// The most that is sent inline.
    std::uint32_t send_octets = 65536;
    /// Calls of the peer's that may be outstanding: receives for these are posted.
    std::uint32_t granted_credits = 64;
    /// Calls of ours that may be outstanding: receives for their Replies are posted.
    std::uint32_t wanted_credits = 64;
    /// Calls that wait for a credit; more are refused.
    std::uint32_t max_queued_calls = 4096;
    /// Which backward requests are taken from the peer.
    BackwardSupport backward = BackwardSupport::kGeneral;
    /// Whether SEND with Invalidate may be asked for, and may be sent: the RNIC has memory management
    /// extensions.
    bool can_offer_invalidation = true;
    bool can_send_invalidation = true;
    /// Whether CONNPROP to UPDPROP are supported; without, they are answered by ERR_INVAL_OPTION.
    bool has_properties = true;
    Limits limits;
    /// CM private data that were sent and received: sizes and invalidation of version 1.
    PrivateData own_private_data;
    std::optional<PrivateData> peer_private_data;
};

/// Receives that are posted beside those for Calls and Replies: properties and OPTIONAL use receives up, too
/// (draft, section 6).
inline constexpr std::uint32_t kReserveReceives = 4;

struct Counters {
    std::uint64_t calls_sent = 0;
    std::uint64_t replies_received = 0;
    std::uint64_t calls_received = 0;
    std::uint64_t replies_sent = 0;
    std::uint64_t calls_resent = 0;
    std::uint64_t errors_received = 0;
    std::uint64_t errors_sent = 0;
    std::uint64_t unknown_xids = 0;
    std::uint64_t bad_messages = 0;  ///< of the peer: not to be parsed, or against a rule
    std::uint64_t bad_replies = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t remote_invalidations = 0;
    std::uint64_t local_invalidations = 0;
    std::uint64_t read_chunk_octets = 0;   ///< read by RDMA for Calls
    std::uint64_t write_chunk_octets = 0;  ///< written by RDMA for Replies
    std::uint64_t dropped_messages = 0;    ///< cannot be answered
};

}  // namespace urnic::rpcrdma
