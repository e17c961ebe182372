// What stands before the BTH of a RoCEv2 packet, as fields: the same for a frame and for what takes its place
// between RNICs of one daemon. Inlined into both, as it stands on the packet path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire {

/// Ethernet, IP and UDP headers whose bytes are all there.
struct PacketFront {
    const std::byte* ethernet;
    const std::byte* ip;
    const std::byte* udp;
    std::uint16_t vlan_tci;
    bool is_ipv4;
};

[[gnu::always_inline]] inline void parse_addresses(const PacketFront& front, PacketView& view) {
    std::memcpy(view.dst_mac.data(), front.ethernet, view.dst_mac.size());
    std::memcpy(view.src_mac.data(), front.ethernet + view.dst_mac.size(), view.src_mac.size());
    view.is_ipv4 = front.is_ipv4;
    view.vlan_tci = front.vlan_tci;
    view.udp_src_port = load_be16(front.udp + kUdpSourcePort);
    if (front.is_ipv4) {
        constexpr Gid kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
        view.src_gid = kMapped;
        view.dst_gid = kMapped;
        std::memcpy(&view.src_gid[12], front.ip + kIpv4Source, 4);
        std::memcpy(&view.dst_gid[12], front.ip + kIpv4Destination, 4);
        view.traffic_class = std::to_integer<std::uint8_t>(front.ip[kIpv4Tos]);
        view.hop_limit = std::to_integer<std::uint8_t>(front.ip[kIpv4Ttl]);
        return;
    }
    std::memcpy(view.src_gid.data(), front.ip + kIpv6Source, view.src_gid.size());
    std::memcpy(view.dst_gid.data(), front.ip + kIpv6Destination, view.dst_gid.size());
    view.traffic_class = static_cast<std::uint8_t>(load_be16(front.ip) >> 4U);
    view.hop_limit = std::to_integer<std::uint8_t>(front.ip[kIpv6HopLimit]);
}

}  // namespace urnic::wire
