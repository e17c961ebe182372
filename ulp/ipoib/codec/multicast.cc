#include "ulp/ipoib/codec/multicast.h"

#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

namespace {

constexpr std::uint16_t kIpv4Signature = 0x401B;
constexpr std::uint16_t kIpv6Signature = 0x601B;
constexpr std::uint32_t kLimitedBroadcast = 0xFFFFFFFFU;

/// | 0xFF | flags 1, scope | signature | P_Key | group ID of 80 bits |
Gid group_gid(const LinkScope& link, std::uint16_t signature) {
    Gid gid{};
    put_u8(gid, 0, 0xFF);
    put_u8(gid, 1, static_cast<std::uint8_t>(0x10U | (link.scope & 0xFU)));
    put_u16(gid, 2, signature);
    put_u16(gid, 4, static_cast<std::uint16_t>(link.pkey | 0x8000U));
    return gid;
}

}  // namespace

Gid broadcast_gid(const LinkScope& link) {
    Gid gid = group_gid(link, kIpv4Signature);
    put_u32(gid, 12, kLimitedBroadcast);
    return gid;
}

Gid ipv4_group_gid(const LinkScope& link, std::uint32_t address) {
    if (address == kLimitedBroadcast) {
        return broadcast_gid(link);
    }
    Gid gid = group_gid(link, kIpv4Signature);
    put_u32(gid, 12, address & 0x0FFFFFFFU);
    return gid;
}

Gid ipv6_group_gid(const LinkScope& link, const Ipv6Address& address) {
    Gid gid = group_gid(link, kIpv6Signature);
    std::copy(address.begin() + 6, address.end(), gid.begin() + 6);
    return gid;
}

std::optional<Gid> group_of_packet(const LinkScope& link, std::uint16_t type, ConstOctets packet) {
    if (type == kTypeIpv4 && packet.size() >= kIpv4HeaderOctets) {
        const std::uint32_t to = u32_at(packet, 16);
        if (to == kLimitedBroadcast || to >> 28U == 0xEU) {
            return ipv4_group_gid(link, to);
        }
    }
    if (type == kTypeIpv6 && packet.size() >= kIpv6HeaderOctets && u8_at(packet, 24) == 0xFF) {
        Ipv6Address to{};
        std::copy_n(packet.begin() + 24, to.size(), to.begin());
        return ipv6_group_gid(link, to);
    }
    return std::nullopt;
}

std::optional<Mac> multicast_mac(std::uint16_t type, ConstOctets packet) {
    if (type == kTypeIpv4 && packet.size() >= kIpv4HeaderOctets) {
        const std::uint32_t to = u32_at(packet, 16);
        if (to == kLimitedBroadcast) {
            return kBroadcastMac;
        }
        if (to >> 28U == 0xEU) {
            Mac mac{};
            put_u16(mac, 0, 0x0100);
            put_u32(mac, 2, 0x5E000000U | (to & 0x7FFFFFU));
            return mac;
        }
    }
    if (type == kTypeIpv6 && packet.size() >= kIpv6HeaderOctets && u8_at(packet, 24) == 0xFF) {
        Mac mac{};
        put_u16(mac, 0, 0x3333);
        put_u32(mac, 2, u32_at(packet, 36));
        return mac;
    }
    return std::nullopt;
}

}  // namespace urnic::ipoib
