// RPC-over-RDMA in the SENDs of a capture.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "base/address.h"
#include "base/psn.h"
#include "cli/decode/rpc_message.h"
#include "cli/decode/rpcrdma_chunks.h"
#include "cli/decode/rpcrdma_connections.h"
#include "rnic/wire/dissect/describe.h"
#include "ulp/rpcrdma/codec/header.h"

namespace urnic::decode {

/// What a SEND carries, or the front of it.
struct SendMessage {
    std::span<const std::byte> octets;
    bool is_whole = false;
};

/// Finds transport headers at the front of RC SENDs. Where the capture has the connection's setup, that
/// tells; else a SEND is taken for RPC-over-RDMA when all of its header parses and agrees with the message's
/// length and with the RPC message behind it. A header that does not end in the first packet of its message
/// is decoded with the last.
class RpcrdmaDecoder {
  public:
    explicit RpcrdmaDecoder(std::uint16_t port = rpcrdma::kNfsRdmaPort) : connections_(port) {}

    /// The layers that the payload of the capture's next packet has: the CM's private data, the transport
    /// header and the RPC message behind it, or an RPC message in a chunk.
    [[nodiscard]] std::vector<wire::Layer> layers_of(const wire::Packet& packet);

  private:
    /// Who calls whom, and the XID.
    using CallKey = std::tuple<Gid, Gid, std::uint32_t>;

    /// A message whose header continues in the next packet.
    struct Beginning {
        Psn next_psn;
        std::vector<std::byte> octets;
    };
    using Destination = std::tuple<Gid, std::uint32_t>;

    [[nodiscard]] std::vector<wire::Layer> first_packet_layers(const wire::Packet& packet);
    [[nodiscard]] std::vector<wire::Layer> next_packet_layers(const wire::Packet& packet);
    [[nodiscard]] std::vector<wire::Layer> message_layers(const wire::Packet& packet,
                                                          const SendMessage& message);
    [[nodiscard]] wire::Layer rpc_layer_of(const wire::Packet& packet, const RpcMessageFront& message);
    RpcrdmaConnections connections_;
    /// What the latest Calls name, for their Replies.
    LatestEntries<CallKey, RpcProcedure> calls_;
    RpcrdmaChunks chunks_;
    std::map<Destination, Beginning> beginnings_;
};

}  // namespace urnic::decode
