#include "cli/decode/rpcrdma_decoder.h"

#include <algorithm>
#include <optional>

#include "cli/decode/rpcrdma_layers.h"
#include "rnic/wire/opcodes.h"

namespace urnic::decode {
namespace {

constexpr std::uint32_t kBothVersions = 1U << rpcrdma::kVersion1 | 1U << rpcrdma::kVersion2;
/// Calls whose Reply is waited for, of all connections of a capture.
constexpr std::size_t kMaxCalls = 65536;
/// More credits than anybody grants.
constexpr std::uint32_t kMaxCredits = 65535;

bool begins_send(const wire::Packet& packet) {
    const std::uint16_t flags = wire::opcode_info(packet.transport.opcode).flags;
    return packet.has_transport && packet.outcome == wire::Outcome::kComplete &&
           (packet.transport.opcode & wire::kServiceMask) == wire::kServiceRc &&
           (flags & wire::kIsSend) != 0 && (flags & wire::kStarts) != 0 && !packet.payload.empty();
}

bool is_whole(const wire::Packet& packet) {
    return (wire::opcode_info(packet.transport.opcode).flags & wire::kEnds) != 0 &&
           packet.payload.size() == packet.payload_bytes;
}

/// The RPC message behind a header, if it is the one that the header is for.
std::optional<RpcMessageFront> rpc_behind(const rpcrdma::Header& header, const wire::Packet& packet) {
    if (header.proc != rpcrdma::Proc::kMsg && header.proc != rpcrdma::Proc::kOptional) {
        return std::nullopt;
    }
    const std::optional<RpcMessageFront> message = parse_rpc_message(packet.payload.subspan(header.size));
    const bool agrees = message && message->xid == header.xid && message->direction == header.direction;
    return agrees ? message : std::nullopt;
}

/// Without payload the RPC message is in a chunk that holds all of it.
bool has_whole_message_chunk(const rpcrdma::Header& header) {
    const std::span<const rpcrdma::ReadSegment> reads = header.chunks.reads();
    return header.direction == rpcrdma::Direction::kCall
               ? !reads.empty() && reads[0].position == 0 && reads[0].target.length != 0
               : total_length(header.chunks.reply_chunk()) != 0;
}

/// Whether a header that decoded is one, when nothing else tells: any payload may begin with any octets.
bool is_plausible(const rpcrdma::Header& header, const wire::Packet& packet, bool has_rpc) {
    const bool is_served = header.version == rpcrdma::kVersion1 || header.version == rpcrdma::kVersion2;
    if (!is_served || header.credits == 0 || header.credits > kMaxCredits || header.chunks.overflowed()) {
        return false;
    }
    const bool fills_message = is_whole(packet) && header.size == packet.payload_bytes;
    switch (header.proc) {
        case rpcrdma::Proc::kMsg:
            return has_rpc;
        case rpcrdma::Proc::kNomsg:
            return fills_message && has_whole_message_chunk(header);
        case rpcrdma::Proc::kOptional:
            return fills_message || has_rpc;
        default:
            return fills_message;
    }
}

/// What is wrong with a header of a connection that is known; nullptr: nothing.
const char* fault_of(rpcrdma::DecodeStatus status, const wire::Packet& packet) {
    switch (status) {
        case rpcrdma::DecodeStatus::kOk:
            return nullptr;
        case rpcrdma::DecodeStatus::kVersion:
            return "unknown version";
        case rpcrdma::DecodeStatus::kUnknownProc:
            return "unknown proc";
        case rpcrdma::DecodeStatus::kTooShort:
        case rpcrdma::DecodeStatus::kBadXdr:
            break;
    }
    return is_whole(packet) ? "malformed" : "malformed or not whole in this packet";
}

}  // namespace

std::vector<wire::Layer> RpcrdmaDecoder::layers_of(const wire::Packet& packet) {
    if (begins_send(packet)) {
        return send_layers(packet);
    }
    const std::optional<rpcrdma::PrivateData> data = connections_.learn(packet);
    return data ? std::vector{private_data_layer(*data)} : std::vector<wire::Layer>();
}

std::vector<wire::Layer> RpcrdmaDecoder::send_layers(const wire::Packet& packet) {
    rpcrdma::Header header;
    const rpcrdma::DecodeStatus status = decode_header(packet.payload, kBothVersions, header);
    if (status != rpcrdma::DecodeStatus::kOk) {
        return connections_.is_known(packet) ? std::vector{rpcrdma_layer(header, fault_of(status, packet))}
                                             : std::vector<wire::Layer>();
    }
    const std::optional<RpcMessageFront> message = rpc_behind(header, packet);
    if (!connections_.is_known(packet) &&
        (!is_plausible(header, packet, message.has_value()) || !describe_payload(packet).empty())) {
        return {};
    }
    std::vector<wire::Layer> layers = {rpcrdma_layer(header, nullptr)};
    if (message) {
        layers.push_back(rpc_layer_of(packet, *message));
    }
    return layers;
}

wire::Layer RpcrdmaDecoder::rpc_layer_of(const wire::Packet& packet, const RpcMessageFront& message) {
    if (message.direction == rpcrdma::Direction::kCall) {
        remember({source_of(packet), destination_of(packet), message.xid}, message.procedure);
        return rpc_layer(message, std::nullopt);
    }
    const auto call = calls_.find({destination_of(packet), source_of(packet), message.xid});
    return rpc_layer(message, call != calls_.end() ? std::optional(call->second) : std::nullopt);
}

void RpcrdmaDecoder::remember(const CallKey& key, const RpcProcedure& procedure) {
    if (!calls_.insert_or_assign(key, procedure).second) {
        return;
    }
    call_order_.push_back(key);
    if (call_order_.size() > kMaxCalls) {
        calls_.erase(call_order_.front());
        call_order_.pop_front();
    }
}

}  // namespace urnic::decode
