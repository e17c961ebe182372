#include "cli/decode/rpcrdma_chunks.h"

#include <span>

#include "cli/decode/described_field.h"
#include "cli/decode/rpcrdma_connections.h"
#include "rnic/wire/opcodes.h"

namespace urnic::decode {
namespace {

std::uint16_t rc_flags_of(const wire::Packet& packet) {
    const bool is_rc = packet.has_transport && packet.outcome == wire::Outcome::kComplete &&
                       (packet.transport.opcode & wire::kServiceMask) == wire::kServiceRc;
    return is_rc ? wire::opcode_info(packet.transport.opcode).flags : std::uint16_t{0};
}

}  // namespace

const char* chunk_name(rpcrdma::Direction direction) {
    return direction == rpcrdma::Direction::kCall ? "Read list, position 0" : "Reply chunk";
}

wire::Layer chunk_layer(const RpcMessageFront& message) {
    wire::Layer layer{"RPC-over-RDMA chunk", {}};
    layer.fields.push_back(shown({"of", chunk_name(message.direction)}));
    return layer;
}

void RpcrdmaChunks::learn(const wire::Packet& packet, const rpcrdma::Header& header) {
    const bool has_chunks = header.proc == rpcrdma::Proc::kMsg || header.proc == rpcrdma::Proc::kNomsg;
    if (!has_chunks || header.direction != rpcrdma::Direction::kCall) {
        return;
    }
    const std::span<const rpcrdma::ReadSegment> reads = header.chunks.reads();
    if (header.proc == rpcrdma::Proc::kNomsg && !reads.empty() && reads[0].position == 0) {
        offer(packet, reads[0].target, {header.xid, rpcrdma::Direction::kCall});
    }
    if (header.chunks.has_reply_chunk() && !header.chunks.reply_chunk().empty()) {
        offer(packet, header.chunks.reply_chunk()[0], {header.xid, rpcrdma::Direction::kReply});
    }
}

void RpcrdmaChunks::offer(const wire::Packet& packet, const rpcrdma::Segment& segment,
                          const ChunkMessage& message) {
    segments_.put({source_of(packet), segment.handle, segment.offset}, message);
}

/// Of a READ or WRITE request that begins where a chunk does.
const ChunkMessage* RpcrdmaChunks::chunk_of(const wire::Packet& packet) const {
    const wire::Reth& reth = packet.transport.reth;
    return segments_.find({destination_of(packet), reth.rkey, reth.va});
}

std::optional<RpcMessageFront> RpcrdmaChunks::message_in(const wire::Packet& packet) {
    const std::uint16_t flags = rc_flags_of(packet);
    const ChunkMessage* chunk = nullptr;
    if ((flags & wire::kIsRead) != 0) {
        const ChunkMessage* const wanted = chunk_of(packet);
        if (wanted != nullptr && wanted->direction == rpcrdma::Direction::kCall) {
            reads_.put({source_of(packet), destination_of(packet), packet.transport.psn.value()}, *wanted);
        }
    } else if ((flags & wire::kStarts) != 0 && (flags & wire::kIsReadResponse) != 0) {
        chunk = reads_.find({destination_of(packet), source_of(packet), packet.transport.psn.value()});
    } else if ((flags & wire::kStarts) != 0 && (flags & wire::kIsWrite) != 0) {
        chunk = chunk_of(packet);
    }
    if (chunk == nullptr) {
        return std::nullopt;
    }
    // Handles and PSNs are used again: the message has to be the one that the chunk was offered for.
    const std::optional<RpcMessageFront> message = parse_rpc_message(packet.payload);
    const bool agrees = message && message->xid == chunk->xid && message->direction == chunk->direction;
    return agrees ? message : std::nullopt;
}

}  // namespace urnic::decode
