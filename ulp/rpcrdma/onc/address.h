/// Host and port as text to socket addresses.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <vector>

namespace urnic::rpcrdma::onc {

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t octets = 0;
    [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

/// `host` nullptr: all addresses of this host. Returns 0 or an error of getaddrinfo().
[[nodiscard]] int resolve(const char* host, const char* port, std::vector<SocketAddress>& out);

/// Octets of an address of its family.
[[nodiscard]] socklen_t address_octets(const sockaddr_storage& address);

/// The network identifier of RPC-over-RDMA (RFC 8166, section 9.1).
[[nodiscard]] const char* network_id(const sockaddr_storage& address);

/// Host order; 0: no port.
[[nodiscard]] unsigned short port_of(const sockaddr_storage& address);

}  // namespace urnic::rpcrdma::onc
