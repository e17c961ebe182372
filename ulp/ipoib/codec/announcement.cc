#include "ulp/ipoib/codec/announcement.h"

#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/translation.h"

namespace urnic::ipoib {

namespace {

constexpr std::uint8_t kIgmp = 2;
constexpr std::uint8_t kHopByHop = 0;
constexpr std::uint8_t kNeighbourAdvertisement = 136;
constexpr std::uint32_t kOverride = 0x20000000;

void put_ethernet(Octets frame, const Mac& to, const Mac& from, std::uint16_t type) {
    std::copy(to.begin(), to.end(), frame.begin());
    std::copy(from.begin(), from.end(), frame.begin() + 6);
    put_u16(frame, 12, type);
}

}  // namespace

std::vector<std::byte> gratuitous_arp(const Mac& own, std::uint32_t address) {
    std::vector<std::byte> frame(kEthernetHeaderOctets + kEthernetArpOctets);
    put_ethernet(frame, kBroadcastMac, own, kTypeArp);
    const Octets arp = Octets(frame).subspan(kEthernetHeaderOctets);
    put_u16(arp, 0, 1);
    put_u16(arp, 2, kTypeIpv4);
    put_u8(arp, 4, 6);
    put_u8(arp, 5, 4);
    put_u16(arp, 6, 1);
    std::copy(own.begin(), own.end(), arp.begin() + 8);
    put_u32(arp, 14, address);
    put_u32(arp, 24, address);
    return frame;
}

std::vector<std::byte> unsolicited_advertisement(const Mac& own, const Ipv6Address& address) {
    constexpr std::size_t kMessageOctets = 32;
    std::vector<std::byte> frame(kEthernetHeaderOctets + kIpv6HeaderOctets + kMessageOctets);
    const Octets packet = Octets(frame).subspan(kEthernetHeaderOctets);
    put_u8(packet, 0, 0x60);
    put_u16(packet, 4, kMessageOctets);
    put_u8(packet, 6, kIcmpv6);
    put_u8(packet, 7, 255);
    std::copy(address.begin(), address.end(), packet.begin() + 8);
    put_u16(packet, 24, 0xFF02);
    put_u8(packet, 39, 1);
    const Octets message = packet.subspan(kIpv6HeaderOctets);
    put_u8(message, 0, kNeighbourAdvertisement);
    put_u32(message, 4, kOverride);
    std::copy(address.begin(), address.end(), message.begin() + 8);
    put_u8(message, 24, 2);
    put_u8(message, 25, 1);
    std::copy(own.begin(), own.end(), message.begin() + 26);
    const std::uint64_t pseudo = sum_words(packet.subspan(8, 32), kMessageOctets + kIcmpv6);
    put_u16(message, 2, static_cast<std::uint16_t>(~fold(sum_words(message, pseudo))));
    put_ethernet(frame, multicast_mac(kTypeIpv6, packet).value_or(kBroadcastMac), own, kTypeIpv6);
    return frame;
}

bool is_membership_report(std::uint16_t type, ConstOctets packet) {
    if (type == kTypeIpv4) {
        return packet.size() >= kIpv4HeaderOctets && u8_at(packet, 9) == kIgmp;
    }
    // MLD has a Router Alert option in front (RFC 3810, section 5).
    constexpr std::size_t kHopByHopOctets = 8;
    if (type != kTypeIpv6 || packet.size() < kIpv6HeaderOctets + kHopByHopOctets + 1 ||
        u8_at(packet, 6) != kHopByHop || u8_at(packet, kIpv6HeaderOctets) != kIcmpv6) {
        return false;
    }
    const std::uint8_t message = u8_at(packet, kIpv6HeaderOctets + kHopByHopOctets);
    return message == 131 || message == 132 || message == 143;
}

}  // namespace urnic::ipoib
