#include "daemon/cm/endpoint.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace urnic::daemon {

namespace {

constexpr std::size_t kIpv4Place = 12;  // in a GID

bool all_zero(const wire::Gid& gid, std::size_t from, std::size_t to) {
    return std::all_of(gid.begin() + static_cast<std::ptrdiff_t>(from),
                       gid.begin() + static_cast<std::ptrdiff_t>(to), [](auto byte) { return byte == 0; });
}

/// A GID of AF_IB is no IPv4 address, whatever it looks like.
bool is_ipv4(const Endpoint& endpoint) { return !endpoint.is_ib() && wire::is_ipv4_mapped(endpoint.gid); }

/// 0: none that rdma_cm has.
std::uint16_t address_bytes(sa_family_t family) {
    switch (family) {
        case AF_INET:
            return sizeof(sockaddr_in);
        case AF_INET6:
            return sizeof(sockaddr_in6);
        case AF_IB:
            return sizeof(SockaddrIb);
        default:
            return 0;
    }
}

Endpoint endpoint_of_ib(const SockaddrIb& address) {
    Endpoint endpoint;
    endpoint.family = AF_IB;
    std::copy(std::begin(address.gid), std::end(address.gid), endpoint.gid.begin());
    endpoint.ib.pkey = ntohs(address.pkey);
    endpoint.ib.flow_info = ntohl(address.flow_info);
    endpoint.ib.service_id = be64toh(address.service_id);
    endpoint.ib.service_mask = be64toh(address.service_mask);
    endpoint.ib.scope_id = address.scope_id;
    endpoint.port = static_cast<std::uint16_t>(endpoint.ib.service_id & endpoint.ib.service_mask);
    return endpoint;
}

SockaddrIb ib_address_of(const Endpoint& endpoint) {
    SockaddrIb address{};
    address.family = AF_IB;
    address.pkey = htons(endpoint.ib.pkey);
    address.flow_info = htonl(endpoint.ib.flow_info);
    std::copy(endpoint.gid.begin(), endpoint.gid.end(), std::begin(address.gid));
    address.service_id = htobe64(endpoint.ib.service_id);
    address.service_mask = htobe64(endpoint.ib.service_mask);
    address.scope_id = endpoint.ib.scope_id;
    return address;
}

}  // namespace

bool Endpoint::is_any() const { return all_zero(gid, is_ipv4(*this) ? kIpv4Place : 0, gid.size()); }

bool Endpoint::is_loopback() const {
    return is_ipv4(*this) ? gid[kIpv4Place] == IN_LOOPBACKNET
                          : all_zero(gid, 0, gid.size() - 1) && gid.back() == 1;
}

bool Endpoint::is_multicast() const {
    return is_ipv4(*this) ? (gid[kIpv4Place] & 0xf0U) == 0xe0U : gid[0] == 0xff;
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
    if (endpoint.is_ib()) {
        return address;
    }
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

bool read_address(const __kernel_sockaddr_storage& address, std::size_t bytes, Endpoint& endpoint) {
    endpoint = {};
    if (bytes == 0 || bytes != address_bytes(address.ss_family)) {
        return false;
    }
    if (address.ss_family == AF_IB) {
        SockaddrIb ib{};
        std::memcpy(&ib, &address, sizeof ib);
        endpoint = endpoint_of_ib(ib);
        return true;
    }
    sockaddr_in6 ip{};
    std::memcpy(&ip, &address, bytes);
    return read_endpoint(ip, false, endpoint);
}

std::uint16_t write_address(const Endpoint& endpoint, __kernel_sockaddr_storage& address) {
    const std::uint16_t bytes = address_bytes(endpoint.family);
    if (endpoint.is_ib()) {
        const SockaddrIb ib = ib_address_of(endpoint);
        std::memcpy(&address, &ib, sizeof ib);
    } else {
        const sockaddr_in6 ip = write_endpoint(endpoint);
        std::memcpy(&address, &ip, bytes);
    }
    return bytes;
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
