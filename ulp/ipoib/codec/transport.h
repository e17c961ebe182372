/// Where TCP and UDP lie in IP packets, and their checksums.
#pragma once

#include <cstdint>
#include <optional>

#include "ulp/ipoib/codec/octets.h"

namespace urnic::ipoib {

inline constexpr std::uint8_t kTcp = 6;
inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::size_t kTcpHeaderOctets = 20;
inline constexpr std::size_t kUdpHeaderOctets = 8;
inline constexpr std::size_t kTcpChecksumAt = 16;
inline constexpr std::size_t kUdpChecksumAt = 6;
/// The octet of flags in a TCP header, and its bits (RFC 9293, 3.1).
inline constexpr std::size_t kTcpFlagsAt = 13;
inline constexpr std::uint8_t kTcpFin = 0x01;
inline constexpr std::uint8_t kTcpSyn = 0x02;
inline constexpr std::uint8_t kTcpRst = 0x04;
inline constexpr std::uint8_t kTcpPsh = 0x08;
inline constexpr std::uint8_t kTcpUrg = 0x20;
inline constexpr std::uint8_t kTcpCwr = 0x80;

/// A header of TCP or UDP in a packet that IP has not fragmented.
struct Transport {
    bool is_ipv6 = false;
    std::uint8_t protocol = 0;
    /// Octets of the IP header with its options or extension headers.
    std::size_t at = 0;
    /// Octets of all headers up to the data.
    std::size_t header_octets = 0;
};

/// None: no whole IP packet whose length is that of `packet`, a fragment, another protocol, headers that are
/// longer than the packet.
[[nodiscard]] std::optional<Transport> find_transport(ConstOctets packet);

/// The sum of the pseudo-header (RFC 9293, 3.1; RFC 8200, 8.1) for a transport header and data of so many
/// octets, not folded.
[[nodiscard]] std::uint64_t pseudo_header_sum(ConstOctets packet, const Transport& transport,
                                              std::size_t octets);

}  // namespace urnic::ipoib
