#include "daemon/cm/endpoint.h"

#include <algorithm>
#include <cstring>

namespace urnic::daemon {

namespace {

constexpr std::size_t kIpv4Place = 12;  // in a GID

bool all_zero(const wire::Gid& gid, std::size_t from, std::size_t to) {
    return std::all_of(gid.begin() + static_cast<std::ptrdiff_t>(from),
                       gid.begin() + static_cast<std::ptrdiff_t>(to), [](auto byte) { return byte == 0; });
}

}  // namespace

bool Endpoint::is_any() const {
    return all_zero(gid, wire::is_ipv4_mapped(gid) ? kIpv4Place : 0, gid.size());
}

bool Endpoint::is_loopback() const {
    return wire::is_ipv4_mapped(gid) ? gid[kIpv4Place] == IN_LOOPBACKNET
                                     : all_zero(gid, 0, gid.size() - 1) && gid.back() == 1;
}

bool Endpoint::is_multicast() const {
    return wire::is_ipv4_mapped(gid) ? (gid[kIpv4Place] & 0xf0U) == 0xe0U : gid[0] == 0xff;
}

bool read_endpoint(const sockaddr_in6& address, bool may_be_none, Endpoint& endpoint) {
    endpoint = {};
    if (address.sin6_family == AF_INET) {
        sockaddr_in ipv4{};
        std::memcpy(&ipv4, &address, sizeof ipv4);
        endpoint.gid[10] = endpoint.gid[11] = 0xff;
        std::memcpy(endpoint.gid.data() + kIpv4Place, &ipv4.sin_addr, sizeof ipv4.sin_addr);
    } else if (address.sin6_family == AF_INET6) {
        std::memcpy(endpoint.gid.data(), &address.sin6_addr, endpoint.gid.size());
        endpoint.scope = address.sin6_scope_id;
    } else {
        return may_be_none && address.sin6_family == AF_UNSPEC;
    }
    endpoint.family = address.sin6_family;
    endpoint.port = ntohs(address.sin6_port);  // at the same place for both
    return true;
}

sockaddr_in6 write_endpoint(const Endpoint& endpoint) {
    sockaddr_in6 address{};
    address.sin6_family = endpoint.family;
    address.sin6_port = htons(endpoint.port);
    if (endpoint.family == AF_INET6) {
        std::memcpy(&address.sin6_addr, endpoint.gid.data(), endpoint.gid.size());
        address.sin6_scope_id = endpoint.scope;
    } else if (endpoint.family == AF_INET) {
        sockaddr_in ipv4{};
        std::memcpy(&ipv4, &address, sizeof ipv4);
        std::memcpy(&ipv4.sin_addr, endpoint.gid.data() + kIpv4Place, sizeof ipv4.sin_addr);
        std::memcpy(&address, &ipv4, sizeof ipv4);
    }
    return address;
}

Endpoint endpoint_of(const wire::Gid& gid, std::uint16_t port) {
    Endpoint endpoint;
    endpoint.family = wire::is_ipv4_mapped(gid) ? AF_INET : AF_INET6;
    endpoint.gid = gid;
    endpoint.port = port;
    return endpoint;
}

wire::Gid ip_cm_address(const wire::Gid& gid) {
    wire::Gid address = gid;
    if (wire::is_ipv4_mapped(gid)) {
        address[10] = address[11] = 0;
    }
    return address;
}

}  // namespace urnic::daemon
