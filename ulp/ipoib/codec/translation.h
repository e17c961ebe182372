/// ARP and neighbour discovery between 6-octet addresses at the TAP device and 20-octet addresses on the link
/// (RFC 4391, 9.2 and 9.3).
#pragma once

#include <cstdint>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

inline constexpr std::size_t kEthernetArpOctets = 28;
inline constexpr std::size_t kIpoibArpOctets = 56;
/// The octets up to the end of the operation, in both.
inline constexpr std::size_t kArpOperationEnd = 8;

/// The two kinds of address by each other; the caller's table of neighbours.
class AddressMap {
  public:
    virtual ~AddressMap() = default;
    AddressMap() = default;
    AddressMap(const AddressMap&) = delete;
    AddressMap& operator=(const AddressMap&) = delete;
    /// Returns false for an address that nobody has.
    [[nodiscard]] virtual bool to_link(const Mac& mac, LinkAddress& out) = 0;
    /// Returns false for an address that cannot be: a special QP, a multicast GID.
    [[nodiscard]] virtual bool to_mac(const LinkAddress& address, Mac& out) = 0;
};

enum class Translation : std::uint8_t {
    kDone,
    kMalformed,  ///< lengths, types, checksum
    kUnknown,    ///< an address that the map has not
    kNoRoom,     ///< longer than `out`
};

/// An ARP message. Zero hardware addresses stay zero.
[[nodiscard]] Translation arp_to_link(ConstOctets arp, AddressMap& map, Octets out);
[[nodiscard]] Translation arp_to_ethernet(ConstOctets arp, AddressMap& map, Octets out);

/// Returns whether an IPv6 packet is a message of neighbour discovery: RS, RA, NS, NA, Redirect (RFC 4861).
[[nodiscard]] bool is_neighbour_discovery(ConstOctets packet);
/// Such a packet with its link-layer address options translated, payload length and checksum anew; `octets`:
/// its length.
[[nodiscard]] Translation discovery_to_link(ConstOctets packet, AddressMap& map, Octets out,
                                            std::size_t& octets);
[[nodiscard]] Translation discovery_to_ethernet(ConstOctets packet, AddressMap& map, Octets out,
                                                std::size_t& octets);

}  // namespace urnic::ipoib
