/// Frames that tell a link of an address: its members replace what they knew (RFC 4391, 9.4: a QPN does not
/// survive a restart).
#pragma once

#include <vector>

#include "ulp/ipoib/codec/multicast.h"

namespace urnic::ipoib {

/// A gratuitous ARP request (RFC 5227, section 3) as an Ethernet frame; the address in host order.
[[nodiscard]] std::vector<std::byte> gratuitous_arp(const Mac& own, std::uint32_t address);
/// An unsolicited neighbour advertisement to all nodes, with the override flag (RFC 4861, 7.2.6).
[[nodiscard]] std::vector<std::byte> unsolicited_advertisement(const Mac& own, const Ipv6Address& address);

/// Returns whether a packet is a report of IGMP or MLD: the kernel's memberships have changed (RFC 3376, RFC
/// 3810).
[[nodiscard]] bool is_membership_report(std::uint16_t type, ConstOctets packet);

}  // namespace urnic::ipoib
