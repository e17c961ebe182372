// Which QPs speak RPC-over-RDMA, as the connection manager's messages of a capture tell.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/address.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/mad/cm.h"
#include "ulp/rpcrdma/codec/private_data.h"

namespace urnic::decode {

/// Where a packet comes from or goes to: IPv4 is mapped, of a native packet without GRH it is the LID.
[[nodiscard]] Gid source_of(const wire::Packet& packet);
[[nodiscard]] Gid destination_of(const wire::Packet& packet);

class RpcrdmaConnections {
  public:
    /// `port`: of the RDMA IP CM service over TCP port space.
    explicit RpcrdmaConnections(std::uint16_t port) : port_(port) {}

    /// Learns from a REQ or REP; the private data of RFC 8797 in it.
    std::optional<rpcrdma::PrivateData> learn(const wire::Packet& packet);
    /// Returns whether the packet goes to a QP of a connection of that port, or whose private data says so.
    [[nodiscard]] bool is_known(const wire::Packet& packet) const;

  private:
    struct Endpoint {
        Gid address{};
        std::uint32_t qpn = 0;
        auto operator<=>(const Endpoint&) const = default;  // NOLINT(modernize-use-nullptr): the generated 0
    };
    struct Request {
        std::uint32_t qpn = 0;
        bool is_rpcrdma = false;
    };
    /// Client and its communication ID.
    using RequestKey = std::tuple<Gid, std::uint32_t>;

    std::optional<rpcrdma::PrivateData> learn_request(const wire::Packet& packet, const wire::cm::Req& req);
    std::optional<rpcrdma::PrivateData> learn_reply(const wire::Packet& packet, const wire::cm::Rep& rep);
    /// QPNs are used again.
    void set_known(const Endpoint& endpoint, bool is_known);

    std::uint16_t port_;
    std::map<RequestKey, Request> requests_;
    std::set<Endpoint> known_;
};

}  // namespace urnic::decode
