#include "ulp/ipoib/codec/transport.h"

#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

namespace {

/// Past the extension headers that may stand in front of a whole segment: hop-by-hop options, routing,
/// destination options (RFC 8200, section 4). `protocol`: of what follows. 0: longer than the packet.
std::size_t skip_extensions(ConstOctets packet, std::uint8_t& protocol) {
    std::size_t at = kIpv6HeaderOctets;
    protocol = u8_at(packet, 6);
    while (protocol == 0 || protocol == 43 || protocol == 60) {
        if (at + 2 > packet.size()) {
            return 0;
        }
        protocol = u8_at(packet, at);
        at += (std::size_t{u8_at(packet, at + 1)} + 1) * 8;
    }
    return at;
}

}  // namespace

std::optional<Transport> find_transport(ConstOctets packet) {
    Transport found;
    if (packet.size() >= kIpv4HeaderOctets && u8_at(packet, 0) >> 4U == 4) {
        constexpr std::uint16_t kFragment = 0x3FFF;  // offset, and more fragments
        found.at = std::size_t{4} * (u8_at(packet, 0) & 0xFU);
        found.protocol = u8_at(packet, 9);
        if (found.at < kIpv4HeaderOctets || u16_at(packet, 2) != packet.size() ||
            (u16_at(packet, 6) & kFragment) != 0) {
            return std::nullopt;
        }
    } else if (packet.size() >= kIpv6HeaderOctets && u8_at(packet, 0) >> 4U == 6) {
        found.is_ipv6 = true;
        if (kIpv6HeaderOctets + u16_at(packet, 4) != packet.size()) {
            return std::nullopt;
        }
        found.at = skip_extensions(packet, found.protocol);
    } else {
        return std::nullopt;
    }
    const std::size_t least = found.protocol == kTcp ? kTcpHeaderOctets : kUdpHeaderOctets;
    if ((found.protocol != kTcp && found.protocol != kUdp) || found.at == 0 ||
        found.at + least > packet.size()) {
        return std::nullopt;
    }
    const std::size_t header =
        found.protocol == kTcp ? std::size_t{4} * (u8_at(packet, found.at + 12) >> 4U) : kUdpHeaderOctets;
    found.header_octets = found.at + header;
    if (header < least || found.header_octets > packet.size()) {
        return std::nullopt;
    }
    return found;
}

std::uint64_t pseudo_header_sum(ConstOctets packet, const Transport& transport, std::size_t octets) {
    const ConstOctets addresses = transport.is_ipv6 ? packet.subspan(8, 32) : packet.subspan(12, 8);
    return sum_words(addresses, octets + transport.protocol);
}

}  // namespace urnic::ipoib
