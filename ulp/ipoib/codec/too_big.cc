#include "ulp/ipoib/codec/too_big.h"

#include <algorithm>

#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

namespace {

constexpr std::uint8_t kIcmp = 1;
constexpr std::size_t kIcmpHeaderOctets = 8;
constexpr std::uint16_t kDontFragment = 0x4000;
constexpr std::uint16_t kMoreFragments = 0x2000;
constexpr std::uint16_t kFragmentOffset = 0x1FFF;
constexpr std::uint8_t kHopLimit = 64;

bool is_icmp_error(ConstOctets packet, std::size_t header) {
    if (u8_at(packet, 9) != kIcmp || packet.size() <= header) {
        return false;
    }
    // Destination unreachable, source quench, redirect, time exceeded, parameter problem (RFC 792).
    const std::uint8_t type = u8_at(packet, header);
    return type == 3 || type == 4 || type == 5 || type == 11 || type == 12;
}

/// The checksum of an IPv4 header.
void finish_header(Octets header) {
    put_u16(header, 10, 0);
    put_u16(header, 10, static_cast<std::uint16_t>(~fold(sum_words(header))));
}

std::optional<std::vector<std::byte>> fragmentation_needed(ConstOctets packet, std::uint32_t mtu) {
    const std::size_t header = std::size_t{4} * (u8_at(packet, 0) & 0xFU);
    const bool is_group = u8_at(packet, 16) >> 4U >= 0xE || u8_at(packet, 12) >> 4U >= 0xE;
    if (header < kIpv4HeaderOctets || packet.size() < header || is_group ||
        (u16_at(packet, 6) & kFragmentOffset) != 0 || is_icmp_error(packet, header)) {
        return std::nullopt;
    }
    // The header and at least 64 bits of what follows (RFC 792); up to 576 octets in all (RFC 1812, 4.3.2.3).
    const std::size_t quoted = std::min<std::size_t>(packet.size(), 576 - 20 - kIcmpHeaderOctets);
    std::vector<std::byte> error(kIpv4HeaderOctets + kIcmpHeaderOctets + quoted);
    put_u8(error, 0, 0x45);
    put_u16(error, 2, static_cast<std::uint16_t>(error.size()));
    put_u8(error, 8, kHopLimit);
    put_u8(error, 9, kIcmp);
    std::copy_n(packet.begin() + 16, 4, error.begin() + 12);
    std::copy_n(packet.begin() + 12, 4, error.begin() + 16);
    finish_header(Octets(error).first(kIpv4HeaderOctets));
    const Octets icmp = Octets(error).subspan(kIpv4HeaderOctets);
    put_u16(icmp, 0, 0x0304);
    put_u16(icmp, 6, static_cast<std::uint16_t>(mtu));
    std::copy_n(packet.begin(), quoted, icmp.begin() + kIcmpHeaderOctets);
    put_u16(icmp, 2, static_cast<std::uint16_t>(~fold(sum_words(icmp))));
    return error;
}

std::optional<std::vector<std::byte>> packet_too_big(ConstOctets packet, std::uint32_t mtu) {
    const bool is_group = u8_at(packet, 24) == 0xFF || u8_at(packet, 8) == 0xFF;
    const bool is_error = u8_at(packet, 6) == kIcmpv6 && packet.size() > kIpv6HeaderOctets &&
                          u8_at(packet, kIpv6HeaderOctets) < 128;
    if (is_group || is_error) {
        return std::nullopt;
    }
    // As much as fits 1,280 octets (RFC 4443, 3.2).
    const std::size_t quoted =
        std::min<std::size_t>(packet.size(), 1280 - kIpv6HeaderOctets - kIcmpHeaderOctets);
    std::vector<std::byte> error(kIpv6HeaderOctets + kIcmpHeaderOctets + quoted);
    put_u8(error, 0, 0x60);
    put_u16(error, 4, static_cast<std::uint16_t>(kIcmpHeaderOctets + quoted));
    put_u8(error, 6, kIcmpv6);
    put_u8(error, 7, kHopLimit);
    std::copy_n(packet.begin() + 24, 16, error.begin() + 8);
    std::copy_n(packet.begin() + 8, 16, error.begin() + 24);
    const Octets icmp = Octets(error).subspan(kIpv6HeaderOctets);
    put_u8(icmp, 0, 2);
    put_u32(icmp, 4, mtu);
    std::copy_n(packet.begin(), quoted, icmp.begin() + kIcmpHeaderOctets);
    const std::uint64_t pseudo = sum_words(ConstOctets(error).subspan(8, 32), icmp.size() + kIcmpv6);
    put_u16(icmp, 2, static_cast<std::uint16_t>(~fold(sum_words(icmp, pseudo))));
    return error;
}

}  // namespace

std::optional<std::vector<std::byte>> too_big_error(ConstOctets packet, std::uint32_t mtu) {
    if (packet.size() >= kIpv4HeaderOctets && u8_at(packet, 0) >> 4U == 4) {
        return fragmentation_needed(packet, mtu);
    }
    if (packet.size() >= kIpv6HeaderOctets && u8_at(packet, 0) >> 4U == 6) {
        return packet_too_big(packet, mtu);
    }
    return std::nullopt;
}

bool can_fragment(ConstOctets packet) {
    return packet.size() > kIpv4HeaderOctets && u8_at(packet, 0) == 0x45 &&
           u16_at(packet, 2) == packet.size() && (u16_at(packet, 6) & kDontFragment) == 0;
}

std::vector<std::vector<std::byte>> fragment_ipv4(ConstOctets packet, std::uint32_t mtu) {
    std::vector<std::vector<std::byte>> fragments;
    const ConstOctets header = packet.first(kIpv4HeaderOctets);
    const ConstOctets data = packet.subspan(kIpv4HeaderOctets);
    // The packet may be a fragment itself: its offset and its last bit continue.
    const std::uint16_t flags = u16_at(packet, 6);
    const std::size_t step = (mtu - kIpv4HeaderOctets) / 8 * 8;
    for (std::size_t at = 0; at < data.size(); at += step) {
        const ConstOctets piece = data.subspan(at, std::min(step, data.size() - at));
        std::vector<std::byte> fragment(header.begin(), header.end());
        fragment.insert(fragment.end(), piece.begin(), piece.end());
        const bool is_last = at + piece.size() == data.size();
        const auto offset = static_cast<std::uint16_t>((flags & kFragmentOffset) + at / 8);
        put_u16(fragment, 2, static_cast<std::uint16_t>(fragment.size()));
        put_u16(fragment, 6,
                static_cast<std::uint16_t>((offset & kFragmentOffset) |
                                           (is_last ? flags & kMoreFragments : kMoreFragments)));
        finish_header(Octets(fragment).first(kIpv4HeaderOctets));
        fragments.push_back(std::move(fragment));
    }
    return fragments;
}

}  // namespace urnic::ipoib
