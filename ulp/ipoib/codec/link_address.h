/// Link-layer addresses of IPoIB (RFC 4391, section 9.1.1) and those of Ethernet that stand for them at the
/// TAP device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ulp/ipoib/codec/octets.h"

namespace urnic::ipoib {

using Gid = std::array<std::byte, 16>;
using Mac = std::array<std::byte, 6>;

inline constexpr std::size_t kLinkAddressOctets = 20;
/// Destination QP of multicast datagrams (IBA).
inline constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;
/// Bits of the flags octet (RFC 4755, section 3.1): RC and UC are supported.
inline constexpr std::uint8_t kSupportsRc = 0x80;
inline constexpr std::uint8_t kSupportsUc = 0x40;
inline constexpr Mac kBroadcastMac = {std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF},
                                      std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}};

[[nodiscard]] inline bool is_multicast(const Gid& gid) { return gid[0] == std::byte{0xFF}; }
[[nodiscard]] inline bool is_multicast(const Mac& mac) { return (mac[0] & std::byte{1}) != std::byte{0}; }

/// Octets on the wire: flags 1, QPN 3, GID 16.
struct LinkAddress {
    std::uint8_t flags = 0;
    std::uint32_t qpn = 0;
    Gid gid{};

    /// Flags do not tell addresses apart.
    friend bool operator==(const LinkAddress& a, const LinkAddress& b) {
        return a.qpn == b.qpn && a.gid == b.gid;
    }
    /// Returns whether datagrams may be sent there: no special QP, no multicast GID, not the zero GID.
    [[nodiscard]] bool is_unicast() const {
        return qpn > 1 && qpn < kMulticastQpn && !is_multicast(gid) && gid != Gid{};
    }
};

struct LinkAddressHash {
    std::size_t operator()(const LinkAddress& address) const {
        std::uint64_t hash = address.qpn;
        for (std::size_t at = 0; at < address.gid.size(); at += 4) {
            hash = (hash ^ u32_at(address.gid, at)) * 0x9E3779B97F4A7C15ULL;
            hash ^= hash >> 29U;
        }
        return hash;
    }
};

[[nodiscard]] inline LinkAddress read_link_address(ConstOctets octets) {
    LinkAddress address;
    address.flags = u8_at(octets, 0);
    address.qpn = u32_at(octets, 0) & 0xFFFFFFU;
    std::copy_n(octets.begin() + 4, address.gid.size(), address.gid.begin());
    return address;
}
inline void write_link_address(Octets octets, const LinkAddress& address) {
    put_u32(octets, 0, static_cast<std::uint32_t>(address.flags) << 24U | (address.qpn & 0xFFFFFFU));
    std::copy(address.gid.begin(), address.gid.end(), octets.begin() + 4);
}
[[nodiscard]] inline Mac read_mac(ConstOctets octets) {
    Mac mac{};
    std::copy_n(octets.begin(), mac.size(), mac.begin());
    return mac;
}

}  // namespace urnic::ipoib
