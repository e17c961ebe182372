// Addresses as rdma_cm's users give them, IP or AF_IB, and as they stand in GIDs and in the IP CM header.
#pragma once

#include <linux/socket.h>
#include <netinet/in.h>

#include <cstddef>
#include <cstdint>

#include "rnic/wire/mad/cm.h"
#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

/// struct sockaddr_ib (<infiniband/ib.h>, which only librdmacm has). Network order but for `scope_id`.
struct SockaddrIb {
    sa_family_t family;
    std::uint16_t pkey;
    std::uint32_t flow_info;
    std::uint8_t gid[16];
    std::uint64_t service_id;
    std::uint64_t service_mask;
    std::uint64_t scope_id;
};
static_assert(sizeof(SockaddrIb) == 48);

/// What an address of AF_IB has beside a GID. Host order.
struct IbAddress {
    std::uint16_t pkey = 0;
    std::uint32_t flow_info = 0;  // traffic class and flow label, as IPv6 has them
    std::uint64_t service_id = 0;
    std::uint64_t service_mask = 0;  // the bits of the service ID that are given
    std::uint64_t scope_id = 0;      // as it was given
};

struct Endpoint {
    sa_family_t family = AF_UNSPEC;  // AF_INET, AF_INET6, AF_IB; AF_UNSPEC: none
    wire::Gid gid{};                 // IPv4-mapped for AF_INET
    std::uint16_t port = 0;          // host order; of AF_IB the service ID's last 16 bits, as far as given
    std::uint32_t scope = 0;         // of an IPv6 link-local address, as it was given
    IbAddress ib;                    // of AF_IB

    [[nodiscard]] bool is_set() const { return family != AF_UNSPEC; }
    [[nodiscard]] bool is_ib() const { return family == AF_IB; }
    [[nodiscard]] bool is_any() const;
    [[nodiscard]] bool is_loopback() const;
    [[nodiscard]] bool is_multicast() const;
};

/// What an application wrote: struct sockaddr_in or sockaddr_in6 in the room of the latter. Returns
/// whether the family is known. AF_UNSPEC stands for no address if `may_be_none`.
[[nodiscard]] bool read_endpoint(const sockaddr_in6& address, bool may_be_none, Endpoint& endpoint);
/// Of AF_IB, which has no room there: none.
[[nodiscard]] sockaddr_in6 write_endpoint(const Endpoint& endpoint);
/// The same of any family. `bytes`: what was given as its length, which must be that of the family.
[[nodiscard]] bool read_address(const __kernel_sockaddr_storage& address, std::size_t bytes,
                                Endpoint& endpoint);
/// Returns its length; 0: it is not set.
std::uint16_t write_address(const Endpoint& endpoint, __kernel_sockaddr_storage& address);
/// An address of ours, or the peer's.
[[nodiscard]] Endpoint endpoint_of(const wire::Gid& gid, std::uint16_t port);
/// As in IpCmHeader: IPv4 in the last four bytes.
[[nodiscard]] wire::Gid ip_cm_address(const wire::Gid& gid);

}  // namespace urnic::daemon
