// Offsets and constants of Ethernet, LRH, GRH, IPv4, IPv6, UDP and BTH that parsing, building and the ICRC
// share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic::wire {

inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kVlanTagBytes = 4;
inline constexpr std::size_t kIpv4Bytes = 20;  // without options: RoCEv2 has none (IBA annex A17)
inline constexpr std::size_t kIpv6Bytes = 40;
inline constexpr std::size_t kUdpBytes = 8;
inline constexpr std::size_t kBthBytes = 12;
inline constexpr std::size_t kIcrcBytes = 4;

// Native InfiniBand: LRH, [GRH,] BTH, ..., ICRC, VCRC (IBA 5.2).
inline constexpr std::size_t kLrhBytes = 8;
inline constexpr std::size_t kGrhBytes = 40;  // in the form of an IPv6 header
inline constexpr std::size_t kVcrcBytes = 2;

/// Link Next Header: what follows the LRH (IBA table 16).
enum LinkNextHeader : std::uint8_t {
    kLnhRaw = 0,        // raw header with an EtherType
    kLnhIpv6 = 1,       // IPv6, no InfiniBand transport
    kLnhTransport = 2,  // BTH: a packet of the local subnet
    kLnhGlobal = 3,     // GRH
};
/// GRH.NxtHdr of a packet with InfiniBand transport (IBA 8.3).
inline constexpr std::uint8_t kNextHeaderIba = 0x1b;

// LRH, from its first byte (IBA 7.7): VL and LVer, SL and LNH, DLID, packet length in words, SLID.
inline constexpr std::size_t kLrhVl = 0;
inline constexpr std::size_t kLrhSlLnh = 1;
inline constexpr std::size_t kLrhDlid = 2;
inline constexpr std::size_t kLrhLength = 4;
inline constexpr std::size_t kLrhSlid = 6;
inline constexpr std::uint16_t kLrhLengthMask = 0x7ff;

// LIDs (IBA 4.1.3): 0 is nobody's, those from here on are groups', the last one is permissive.
inline constexpr std::uint16_t kFirstMulticastLid = 0xc000;
inline constexpr std::uint16_t kPermissiveLid = 0xffff;
[[nodiscard]] constexpr bool is_multicast_lid(std::uint16_t lid) {
    return lid >= kFirstMulticastLid && lid != kPermissiveLid;
}

inline constexpr std::uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherTypeIpv6 = 0x86dd;
inline constexpr std::uint16_t kEtherTypeVlan = 0x8100;
inline constexpr std::uint8_t kProtocolUdp = 17;

// IPv4, from the first byte of its header.
inline constexpr std::size_t kIpv4Tos = 1;
inline constexpr std::size_t kIpv4TotalLength = 2;
inline constexpr std::size_t kIpv4Id = 4;
inline constexpr std::size_t kIpv4Fragment = 6;
inline constexpr std::size_t kIpv4Ttl = 8;
inline constexpr std::size_t kIpv4Protocol = 9;
inline constexpr std::size_t kIpv4Checksum = 10;
inline constexpr std::size_t kIpv4Source = 12;
inline constexpr std::size_t kIpv4Destination = 16;
inline constexpr std::uint16_t kIpv4DontFragment = 0x4000;
inline constexpr std::uint16_t kIpv4FragmentMask = 0x3fff;  // more fragments, fragment offset

// IPv6, from the first byte of its header.
inline constexpr std::size_t kIpv6PayloadLength = 4;
inline constexpr std::size_t kIpv6NextHeader = 6;
inline constexpr std::size_t kIpv6HopLimit = 7;
inline constexpr std::size_t kIpv6Source = 8;
inline constexpr std::size_t kIpv6Destination = 24;

// UDP, from the first byte of its header.
inline constexpr std::size_t kUdpSourcePort = 0;
inline constexpr std::size_t kUdpDestinationPort = 2;
inline constexpr std::size_t kUdpLength = 4;
inline constexpr std::size_t kUdpChecksum = 6;

// BTH, from its first byte (IBA 9.2.1).
inline constexpr std::size_t kBthFlags = 1;
inline constexpr std::size_t kBthPkey = 2;
inline constexpr std::size_t kBthResv8a = 4;
inline constexpr std::size_t kBthDestQp = 5;
inline constexpr std::size_t kBthAckReq = 8;
inline constexpr std::size_t kBthPsn = 9;

}  // namespace urnic::wire
