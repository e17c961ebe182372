// A parsed frame: views into the caller's buffer, nothing copied but header fields.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/address.h"
#include "rnic/wire/headers.h"

namespace urnic::wire {

using urnic::Gid;
using urnic::Mac;

/// The same as ==, for the packet path: two loads and compares instead of a call of memcmp.
[[nodiscard]] inline bool same_gid(const Gid& a, const Gid& b) {
    using Words = std::array<std::uint64_t, 2>;
    const auto x = std::bit_cast<Words>(a);
    const auto y = std::bit_cast<Words>(b);
    return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}
/// ::ffff:0:0/96: the GID of an IPv4 address (IBA A17.4.5.2).
[[nodiscard]] inline bool is_ipv4_mapped(const Gid& gid) {
    constexpr std::array<std::uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.data(), kPrefix.data(), kPrefix.size()) == 0;
}
[[nodiscard]] inline bool same_mac(const Mac& a, const Mac& b) {
    std::uint32_t difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference |= static_cast<std::uint32_t>(a[i] ^ b[i]);
    }
    return difference == 0;
}

struct PacketView {
    PacketHeader header;
    std::span<const std::byte> payload;  // without pad bytes
    Gid src_gid{};
    Gid dst_gid{};
    Mac src_mac{};
    Mac dst_mac{};
    bool is_ipv4 = true;
    std::uint8_t traffic_class = 0;  // TOS or traffic class: DSCP << 2 | ECN
    std::uint8_t hop_limit = 0;
    std::uint16_t udp_src_port = 0;
    std::uint16_t vlan_tci = 0;     // 0: no tag
    std::span<const std::byte> l3;  // from the first byte of the IP header to the last before the ICRC
    // Of native InfiniBand alone: parse_frame() leaves it as it is. Without a GRH the GIDs are those of
    // lid_gid(); is_ipv4 is false, and MACs, traffic class and UDP port are zero. `l3` begins with the GRH.
    bool has_grh = true;
    std::uint8_t sl = 0;
    std::uint16_t slid = 0;
    std::uint16_t dlid = 0;
    // What the bytes lie in, of whoever received them (FrameRetainer); parse_frame() leaves it as it is.
    void* frame = nullptr;
};

/// What stands for the GID of a port in packets without a GRH: ::LID, no GID of any port.
[[nodiscard]] constexpr Gid lid_gid(std::uint16_t lid) {
    Gid gid{};
    gid[14] = static_cast<std::uint8_t>(lid >> 8U);
    gid[15] = static_cast<std::uint8_t>(lid);
    return gid;
}

/// The ECN field of the traffic class (RFC 3168 5).
enum Ecn : std::uint8_t { kEcnMask = 0x03, kEct0 = 0x02, kEcnCe = 0x03 };

/// Why a frame is not ours or not valid.
enum class ParseError : std::uint8_t {
    kNone,
    kNotRoce,    // some other protocol, port or a fragment: not for the RNIC
    kMalformed,  // RoCE, but lengths, versions or opcode do not add up
    kBadIcrc,
    kBadVcrc,  // native InfiniBand
};

/// A path whose destination MAC stays what it is: a multicast group, or a neighbour on the in-process wire.
inline constexpr std::uint16_t kNoNeighbour = 0xffff;

/// The fixed part of every packet of one QP: Ethernet (with an optional VLAN tag), IPv4 or IPv6, UDP; or LRH
/// and, if there is one, GRH. Lengths, IP identification and checksum are filled in for each packet.
struct Path {
    static constexpr std::size_t kMaxBytes = 14 + 4 + 40 + 8;
    std::array<std::uint8_t, kMaxBytes> bytes{};
    std::uint8_t length = 0;
    std::uint8_t l3_offset = 0;  // 0 of native InfiniBand alone
    bool is_ipv4 = true;
    std::uint16_t neighbour = kNoNeighbour;  // whose MAC a packet gets when it is sent (NeighbourMacs)
};

/// What a Path is made from.
struct PathSpec {
    Mac src_mac{};
    Mac dst_mac{};
    std::uint16_t neighbour = kNoNeighbour;
    Gid src_gid{};
    Gid dst_gid{};
    std::uint16_t vlan_tci = 0;  // 0: no tag
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    std::uint32_t flow_label = 0;
    std::uint16_t udp_src_port = 0xc000;
    // Native InfiniBand, which takes GIDs, traffic class, hop limit and flow label for its GRH.
    bool is_infiniband = false;
    bool has_grh = false;
    std::uint8_t sl = 0;
    std::uint16_t slid = 0;
    std::uint16_t dlid = 0;
};

}  // namespace urnic::wire
