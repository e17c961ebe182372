/// What happens to an IP packet that is longer than the way to its destination takes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ulp/ipoib/codec/octets.h"

namespace urnic::ipoib {

/// The ICMP error that tells the sender of `packet` the MTU: "fragmentation needed" (RFC 792, RFC 1191) or
/// "packet too big" (RFC 4443, 3.2), as an IP packet from the packet's destination to its source. None: no
/// error may be sent about it (RFC 1122, 3.2.2; RFC 4443, 2.4): a group, a fragment that is not the first, an
/// ICMP error, no whole header.
[[nodiscard]] std::optional<std::vector<std::byte>> too_big_error(ConstOctets packet, std::uint32_t mtu);

/// Returns whether fragment_ipv4() can cut it: IPv4 without options and without DF.
[[nodiscard]] bool can_fragment(ConstOctets packet);
/// The fragments (RFC 791, 3.2) of such a packet, none longer than `mtu`, which is at least 68.
[[nodiscard]] std::vector<std::vector<std::byte>> fragment_ipv4(ConstOctets packet, std::uint32_t mtu);

}  // namespace urnic::ipoib
