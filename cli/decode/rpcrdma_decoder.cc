#include "cli/decode/rpcrdma_decoder.h"

#include <algorithm>
#include <optional>

#include "cli/decode/rpcrdma_layers.h"
#include "rnic/wire/opcodes.h"

namespace urnic::decode {
namespace {

constexpr std::uint32_t kBothVersions = 1U << rpcrdma::kVersion1 | 1U << rpcrdma::kVersion2;
/// More credits than anybody grants.
constexpr std::uint32_t kMaxCredits = 65535;

/// Most octets of a message, and most messages at a time, that are put together from several packets.
constexpr std::size_t kMaxMessageOctets = 65536;
constexpr std::size_t kMaxBeginnings = 4096;

std::uint16_t flags_of(const wire::Packet& packet) {
    return wire::opcode_info(packet.transport.opcode).flags;
}

bool is_rc_send(const wire::Packet& packet) {
    return packet.has_transport && packet.outcome == wire::Outcome::kComplete &&
           (packet.transport.opcode & wire::kServiceMask) == wire::kServiceRc &&
           (flags_of(packet) & wire::kIsSend) != 0 && !packet.payload.empty();
}

bool is_captured_whole(const wire::Packet& packet) { return packet.payload.size() == packet.payload_bytes; }

/// The RPC message behind a header, if it is the one that the header is for.
std::optional<RpcMessageFront> rpc_behind(const rpcrdma::Header& header, std::span<const std::byte> octets) {
    if (header.proc != rpcrdma::Proc::kMsg && header.proc != rpcrdma::Proc::kOptional) {
        return std::nullopt;
    }
    const std::optional<RpcMessageFront> message = parse_rpc_message(octets.subspan(header.size));
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
bool is_plausible(const rpcrdma::Header& header, const SendMessage& message, bool has_rpc) {
    const bool is_served = header.version == rpcrdma::kVersion1 || header.version == rpcrdma::kVersion2;
    if (!is_served || header.credits == 0 || header.credits > kMaxCredits || header.chunks.overflowed()) {
        return false;
    }
    const bool fills_message = message.is_whole && header.size == message.octets.size();
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
const char* fault_of(rpcrdma::DecodeStatus status, const SendMessage& message) {
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
    return message.is_whole ? "malformed" : "malformed or not whole in this packet";
}

}  // namespace

std::vector<wire::Layer> RpcrdmaDecoder::layers_of(const wire::Packet& packet) {
    if (is_rc_send(packet)) {
        return (flags_of(packet) & wire::kStarts) != 0 ? first_packet_layers(packet)
                                                       : next_packet_layers(packet);
    }
    if (const std::optional<RpcMessageFront> message = chunks_.message_in(packet)) {
        return {chunk_layer(*message), rpc_layer_of(packet, *message)};
    }
    const std::optional<rpcrdma::PrivateData> data = connections_.learn(packet);
    return data ? std::vector{private_data_layer(*data)} : std::vector<wire::Layer>();
}

std::vector<wire::Layer> RpcrdmaDecoder::first_packet_layers(const wire::Packet& packet) {
    const bool is_last = (flags_of(packet) & wire::kEnds) != 0;
    const SendMessage message = {packet.payload, is_last && is_captured_whole(packet)};
    std::vector<wire::Layer> layers = message_layers(packet, message);
    const Destination destination = {destination_of(packet), packet.transport.dest_qp};
    beginnings_.erase(destination);
    const bool is_understood = !layers.empty() && !has_fault(layers.front());
    if (!is_understood && !is_last && is_captured_whole(packet)) {
        if (beginnings_.size() == kMaxBeginnings) {
            beginnings_.clear();
        }
        beginnings_[destination] = {packet.transport.psn + 1, {packet.payload.begin(), packet.payload.end()}};
    }
    return layers;
}

std::vector<wire::Layer> RpcrdmaDecoder::next_packet_layers(const wire::Packet& packet) {
    const auto found = beginnings_.find({destination_of(packet), packet.transport.dest_qp});
    if (found == beginnings_.end() || packet.transport.psn != found->second.next_psn) {
        return {};  // of a message that was understood, or missing packets, or sent again
    }
    std::vector<std::byte>& octets = found->second.octets;
    if (!is_captured_whole(packet) || octets.size() + packet.payload.size() > kMaxMessageOctets) {
        beginnings_.erase(found);
        return {};
    }
    octets.insert(octets.end(), packet.payload.begin(), packet.payload.end());
    ++found->second.next_psn;
    if ((flags_of(packet) & wire::kEnds) == 0) {
        return {};
    }
    const std::vector<std::byte> whole = std::move(octets);
    beginnings_.erase(found);
    return message_layers(packet, {whole, true});
}

std::vector<wire::Layer> RpcrdmaDecoder::message_layers(const wire::Packet& packet,
                                                        const SendMessage& message) {
    rpcrdma::Header header;
    const rpcrdma::DecodeStatus status = decode_header(message.octets, kBothVersions, header);
    const bool is_known = connections_.is_known(packet);
    if (status != rpcrdma::DecodeStatus::kOk) {
        return is_known ? std::vector{rpcrdma_layer(header, fault_of(status, message))}
                        : std::vector<wire::Layer>();
    }
    const std::optional<RpcMessageFront> rpc = rpc_behind(header, message.octets);
    if (!is_known && (!is_plausible(header, message, rpc.has_value()) || !describe_payload(packet).empty())) {
        return {};
    }
    chunks_.learn(packet, header);
    std::vector<wire::Layer> layers = {rpcrdma_layer(header, nullptr)};
    if (rpc) {
        layers.push_back(rpc_layer_of(packet, *rpc));
    }
    return layers;
}

wire::Layer RpcrdmaDecoder::rpc_layer_of(const wire::Packet& packet, const RpcMessageFront& message) {
    if (message.direction == rpcrdma::Direction::kCall) {
        calls_.put({source_of(packet), destination_of(packet), message.xid}, message.procedure);
        return rpc_layer(message, std::nullopt);
    }
    const RpcProcedure* const call = calls_.find({destination_of(packet), source_of(packet), message.xid});
    return rpc_layer(message, call != nullptr ? std::optional(*call) : std::nullopt);
}

}  // namespace urnic::decode
