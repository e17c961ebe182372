#include "cli/decode/rpcrdma_connections.h"

#include <algorithm>
#include <span>

#include "rnic/wire/mad/mad.h"

namespace urnic::decode {
namespace {

/// The RDMA IP CM service ID of a port in the port space of TCP.
constexpr std::uint64_t tcp_service_id(std::uint16_t port) { return 0x0106'0000U | port; }

Gid mapped(const std::array<std::uint8_t, 4>& address) {
    Gid gid{};
    gid[10] = gid[11] = 0xff;
    std::ranges::copy(address, gid.begin() + 12);
    return gid;
}

Gid of_lid(std::uint16_t lid) {
    Gid gid{};
    gid[14] = static_cast<std::uint8_t>(lid >> 8U);
    gid[15] = static_cast<std::uint8_t>(lid);
    return gid;
}

/// The connection manager's message of a packet.
std::optional<wire::cm::Message> cm_message(const wire::Packet& packet) {
    if (!packet.has_transport || (packet.transport.opcode & wire::kServiceMask) != wire::kServiceUd ||
        packet.transport.dest_qp != wire::kQp1 || packet.payload.size() < wire::kMadBytes) {
        return std::nullopt;
    }
    wire::MadHeader mad;
    wire::read_fields(wire::kMadTable, packet.payload.data(), &mad);
    if (mad.mgmt_class != wire::kMadClassCommunication) {
        return std::nullopt;
    }
    return wire::cm::parse_message(mad.attribute_id,
                                   packet.payload.subspan<wire::kMadHeaderBytes, wire::cm::kMessageBytes>());
}

std::optional<rpcrdma::PrivateData> decode_at(std::span<const std::uint8_t> octets, std::size_t offset) {
    return rpcrdma::decode_private_data(std::as_bytes(octets.subspan(offset)));
}

}  // namespace

Gid source_of(const wire::Packet& packet) {
    return packet.network == wire::Network::kIpv4   ? mapped(packet.ipv4.src_address)
           : packet.network == wire::Network::kNone ? of_lid(packet.lrh.slid)
                                                    : packet.grh.src_gid;
}

Gid destination_of(const wire::Packet& packet) {
    return packet.network == wire::Network::kIpv4   ? mapped(packet.ipv4.dst_address)
           : packet.network == wire::Network::kNone ? of_lid(packet.lrh.dlid)
                                                    : packet.grh.dst_gid;
}

std::optional<rpcrdma::PrivateData> RpcrdmaConnections::learn(const wire::Packet& packet) {
    const std::optional<wire::cm::Message> message = cm_message(packet);
    if (!message) {
        return std::nullopt;
    }
    if (const auto* req = std::get_if<wire::cm::Req>(&*message)) {
        return learn_request(packet, *req);
    }
    if (const auto* rep = std::get_if<wire::cm::Rep>(&*message)) {
        return learn_reply(packet, *rep);
    }
    return std::nullopt;
}

std::optional<rpcrdma::PrivateData> RpcrdmaConnections::learn_request(const wire::Packet& packet,
                                                                      const wire::cm::Req& req) {
    wire::cm::IpCmHeader ip;
    wire::read_fields(wire::cm::kIpCmHeaderTable, std::as_bytes(std::span(req.private_data)).data(), &ip);
    const bool has_ip = wire::cm::is_ip_cm_service(req.service_id) && is_known_version(ip);
    const std::optional<rpcrdma::PrivateData> data =
        decode_at(req.private_data, has_ip ? wire::cm::kIpCmHeaderBytes : 0);
    const bool is_rpcrdma = req.service_id == tcp_service_id(port_) || data.has_value();
    requests_[{source_of(packet), req.local_comm_id}] = {req.local_qpn, is_rpcrdma};
    set_known({source_of(packet), req.local_qpn}, is_rpcrdma);
    return data;
}

std::optional<rpcrdma::PrivateData> RpcrdmaConnections::learn_reply(const wire::Packet& packet,
                                                                    const wire::cm::Rep& rep) {
    const std::optional<rpcrdma::PrivateData> data = decode_at(rep.private_data, 0);
    const auto request = requests_.find({destination_of(packet), rep.remote_comm_id});
    const bool is_rpcrdma = data.has_value() || (request != requests_.end() && request->second.is_rpcrdma);
    set_known({source_of(packet), rep.local_qpn}, is_rpcrdma);
    if (request != requests_.end()) {
        set_known({destination_of(packet), request->second.qpn}, is_rpcrdma);
    }
    return data;
}

void RpcrdmaConnections::set_known(const Endpoint& endpoint, bool is_known) {
    if (is_known) {
        known_.insert(endpoint);
    } else {
        known_.erase(endpoint);
    }
}

bool RpcrdmaConnections::is_known(const wire::Packet& packet) const {
    return known_.contains({destination_of(packet), packet.transport.dest_qp});
}

}  // namespace urnic::decode
