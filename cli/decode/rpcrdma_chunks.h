// RPC messages that travel outside the SENDs: a Call in a Position-Zero Read chunk, a Reply in a Reply chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "base/address.h"
#include "base/psn.h"
#include "cli/decode/rpc_message.h"
#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/packet.h"
#include "ulp/rpcrdma/codec/header.h"

namespace urnic::decode {

/// The latest entries of a table that a capture must not make as large as it likes.
template <class Key, class Value>
class LatestEntries {
  public:
    void put(const Key& key, const Value& value) {
        if (!entries_.insert_or_assign(key, value).second) {
            return;
        }
        order_.push_back(key);
        if (order_.size() > kMaxEntries) {
            entries_.erase(order_.front());
            order_.pop_front();
        }
    }
    /// nullptr: none.
    [[nodiscard]] const Value* find(const Key& key) const {
        const auto found = entries_.find(key);
        return found != entries_.end() ? &found->second : nullptr;
    }

  private:
    static constexpr std::size_t kMaxEntries = 65536;

    std::map<Key, Value> entries_;
    std::deque<Key> order_;
};

/// An RPC message that a chunk holds.
struct ChunkMessage {
    std::uint32_t xid = 0;
    rpcrdma::Direction direction = rpcrdma::Direction::kCall;
};

/// Follows the first segments of such chunks from the Call that offers them to the packet that has their
/// first octets: a READ response, or the WRITE itself.
class RpcrdmaChunks {
  public:
    /// Learns the chunks of a Call.
    void learn(const wire::Packet& packet, const rpcrdma::Header& header);
    /// The RPC message that begins in a packet which is no SEND.
    [[nodiscard]] std::optional<RpcMessageFront> message_in(const wire::Packet& packet);

  private:
    /// Whose memory, R_Key, address.
    using SegmentKey = std::tuple<Gid, std::uint32_t, std::uint64_t>;
    /// Who reads from whom, and the PSN of the first response. The QP that a response goes to is not in the
    /// request.
    using ReadKey = std::tuple<Gid, Gid, std::uint32_t>;

    [[nodiscard]] const ChunkMessage* chunk_of(const wire::Packet& packet) const;
    void offer(const wire::Packet& packet, const rpcrdma::Segment& segment, const ChunkMessage& message);

    LatestEntries<SegmentKey, ChunkMessage> segments_;
    LatestEntries<ReadKey, ChunkMessage> reads_;
};

/// Where an RPC message travels that is not behind its header: "Read list, position 0", "Reply chunk".
[[nodiscard]] const char* chunk_name(rpcrdma::Direction direction);
/// In front of the layer of an RPC message in a chunk.
[[nodiscard]] wire::Layer chunk_layer(const RpcMessageFront& message);

}  // namespace urnic::decode
