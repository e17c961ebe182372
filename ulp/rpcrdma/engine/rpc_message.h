/// An RPC message for the wire: the octets of its stream, and DDP-eligible data items that were left out of
/// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ulp/rpcrdma/codec/xdr.h"

namespace urnic::rpcrdma {

/// A DDP-eligible data item (RFC 8166, section 3.4.1): its data without length word and padding.
struct Item {
    /// Octet of the stream (without items) that it belongs in front of: just behind its length word. Never
    /// decreases from item to item.
    std::size_t at = 0;
    std::span<const std::byte> data;
};

/// Most items of one message.
inline constexpr std::size_t kMaxItems = 8;

/// The stream has everything but the items and their padding.
struct RpcMessage {
    std::span<const std::byte> stream;
    std::span<const Item> items;

    /// Octets with all items and padding in place.
    [[nodiscard]] std::uint64_t full_octets() const {
        std::uint64_t total = stream.size();
        for (const Item& item : items) {
            total += xdr_padded(item.data.size());
        }
        return total;
    }
    /// Returns whether items are in order, inside the stream, at words, and at most kMaxItems.
    [[nodiscard]] bool is_valid() const;
};

/// A Call of ours. What it refers to is the engine's until complete().
struct CallRequest {
    std::uint32_t xid = 0;
    RpcMessage message;
    /// Memory for DDP-eligible results, in the order of the Reply, each with room for the largest; at most
    /// kMaxWriteChunks.
    std::span<const std::span<std::byte>> results;
    /// Octets of the largest Reply without these results.
    std::uint64_t max_reply_octets = 0;
    /// When it ends with kTimedOut, nanoseconds of the clock of now; 0: never.
    std::int64_t deadline_ns = 0;
    std::uint64_t token = 0;
};

/// What became of the answer to an IncomingCall.
enum class ReplyStatus : std::uint8_t {
    kSent,
    /// The requester got ERR_WRITE_RESOURCE or ERR_REPLY_RESOURCE in its place: it may send the Call again
    /// with the same XID (draft, 7.2.4), which is not to be executed twice perhaps.
    kNoRoom,
    /// It got ERR_SYSTEM: the message is not valid or too large, or there is no memory.
    kRefused,
    /// There is no such Call: the connection ended.
    kUnknown,
};

}  // namespace urnic::rpcrdma
