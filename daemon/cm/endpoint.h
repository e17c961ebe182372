// IP addresses and ports as rdma_cm's users give them, and as they stand in GIDs and in the IP CM header.
#pragma once

#include <netinet/in.h>

#include <cstdint>

#include "rnic/wire/mad/cm.h"
#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

struct Endpoint {
    sa_family_t family = AF_UNSPEC;  // AF_INET, AF_INET6; AF_UNSPEC: none
    wire::Gid gid{};                 // IPv4-mapped for AF_INET
    std::uint16_t port = 0;          // host order
    std::uint32_t scope = 0;         // of an IPv6 link-local address, as it was given

    [[nodiscard]] bool is_set() const { return family != AF_UNSPEC; }
    [[nodiscard]] bool is_any() const;
    [[nodiscard]] bool is_loopback() const;
    [[nodiscard]] bool is_multicast() const;
};

/// What an application wrote: struct sockaddr_in or sockaddr_in6 in the room of the latter. Returns
/// whether the family is known. AF_UNSPEC stands for no address if `may_be_none`.
[[nodiscard]] bool read_endpoint(const sockaddr_in6& address, bool may_be_none, Endpoint& endpoint);
[[nodiscard]] sockaddr_in6 write_endpoint(const Endpoint& endpoint);
/// An address of ours, or the peer's.
[[nodiscard]] Endpoint endpoint_of(const wire::Gid& gid, std::uint16_t port);
/// As in IpCmHeader: IPv4 in the last four bytes.
[[nodiscard]] wire::Gid ip_cm_address(const wire::Gid& gid);

}  // namespace urnic::daemon
