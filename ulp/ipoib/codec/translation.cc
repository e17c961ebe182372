#include "ulp/ipoib/codec/translation.h"

#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

namespace {

// ARP (RFC 826): offsets of the fields behind the addresses' lengths.
constexpr std::uint16_t kHardwareEthernet = 1;
constexpr std::uint16_t kHardwareInfiniband = 32;
constexpr std::size_t kArpFixedOctets = 8;
constexpr std::size_t kMacOctets = 6;

constexpr std::uint8_t kSourceOption = 1;
constexpr std::uint8_t kTargetOption = 2;
// In units of 8 octets (RFC 4861, 4.6.1; RFC 4391, 9.3).
constexpr std::size_t kEthernetOption = 1;
constexpr std::size_t kIpoibOption = 3;

/// Octets of a message in front of its options, by its type; 0: no message of neighbour discovery.
std::size_t options_at(std::uint8_t type) {
    switch (type) {
        case 133:  // router solicitation
            return 8;
        case 134:  // router advertisement
            return 16;
        case 135:  // neighbour solicitation
        case 136:  // neighbour advertisement
            return 24;
        case 137:  // redirect
            return 40;
        default:
            return 0;
    }
}

bool is_arp(ConstOctets arp, std::uint16_t hardware, std::size_t address_octets) {
    const std::uint16_t operation = u16_at(arp, 6);
    return u16_at(arp, 0) == hardware && u16_at(arp, 2) == kTypeIpv4 && u8_at(arp, 4) == address_octets &&
           u8_at(arp, 5) == 4 && (operation == 1 || operation == 2);
}

void write_arp_head(Octets out, ConstOctets from, std::uint16_t hardware, std::size_t address_octets) {
    put_u16(out, 0, hardware);
    put_u16(out, 2, kTypeIpv4);
    put_u8(out, 4, static_cast<std::uint8_t>(address_octets));
    put_u8(out, 5, 4);
    put_u16(out, 6, u16_at(from, 6));
}

/// ICMPv6's checksum covers a pseudo-header (RFC 8200, section 8.1).
std::uint16_t icmpv6_sum(ConstOctets packet) {
    const ConstOctets message = packet.subspan(kIpv6HeaderOctets);
    const std::uint64_t sum = sum_words(packet.subspan(8, 32), message.size() + kIcmpv6);
    return fold(sum_words(message, sum));
}

/// Copies a packet of neighbour discovery option by option; `translate(option, room)` writes an address
/// option and returns its octets, 0: it cannot, and `why` says why.
template <class Translate>
Translation copy_options(ConstOctets packet, Octets out, std::size_t& octets, const Translate& translate) {
    const std::size_t head = kIpv6HeaderOctets + options_at(u8_at(packet, kIpv6HeaderOctets));
    // The IP length may be less than the frame's, never more.
    const std::size_t length = kIpv6HeaderOctets + u16_at(packet, 4);
    if (length > packet.size() || length < head || icmpv6_sum(packet.first(length)) != 0xFFFF) {
        return Translation::kMalformed;
    }
    if (out.size() < head) {
        return Translation::kNoRoom;
    }
    packet = packet.first(length);
    std::copy_n(packet.begin(), head, out.begin());
    octets = head;
    for (std::size_t at = head; at != length;) {
        const std::size_t option = at + 2 <= length ? std::size_t{u8_at(packet, at + 1)} * 8 : 0;
        if (option == 0 || at + option > length) {
            return Translation::kMalformed;
        }
        const ConstOctets from = packet.subspan(at, option);
        const std::uint8_t type = u8_at(from, 0);
        std::size_t written = option;
        if (type == kSourceOption || type == kTargetOption) {
            const Translation result = translate(from, out.subspan(octets), written);
            if (result != Translation::kDone) {
                return result;
            }
        } else if (option > out.size() - octets) {
            return Translation::kNoRoom;
        } else {
            std::copy(from.begin(), from.end(), out.begin() + static_cast<std::ptrdiff_t>(octets));
        }
        octets += written;
        at += option;
    }
    const Octets whole = out.first(octets);
    put_u16(whole, 4, static_cast<std::uint16_t>(octets - kIpv6HeaderOctets));
    put_u16(whole, kIpv6HeaderOctets + 2, 0);
    put_u16(whole, kIpv6HeaderOctets + 2, static_cast<std::uint16_t>(~icmpv6_sum(whole)));
    return Translation::kDone;
}

}  // namespace

Translation arp_to_link(ConstOctets arp, AddressMap& map, Octets out) {
    // What is behind are the octets that fill an Ethernet frame.
    if (arp.size() < kEthernetArpOctets || !is_arp(arp, kHardwareEthernet, kMacOctets)) {
        return Translation::kMalformed;
    }
    if (out.size() < kIpoibArpOctets) {
        return Translation::kNoRoom;
    }
    LinkAddress sender;
    LinkAddress target;
    const Mac target_mac = read_mac(arp.subspan(18));
    const bool has_target = target_mac != Mac{} && target_mac != kBroadcastMac;
    if (!map.to_link(read_mac(arp.subspan(8)), sender) || (has_target && !map.to_link(target_mac, target))) {
        return Translation::kUnknown;
    }
    write_arp_head(out, arp, kHardwareInfiniband, kLinkAddressOctets);
    write_link_address(out.subspan(kArpFixedOctets), sender);
    std::copy_n(arp.begin() + 14, 4, out.begin() + 28);
    write_link_address(out.subspan(32), target);
    std::copy_n(arp.begin() + 24, 4, out.begin() + 52);
    return Translation::kDone;
}

Translation arp_to_ethernet(ConstOctets arp, AddressMap& map, Octets out) {
    if (arp.size() != kIpoibArpOctets || !is_arp(arp, kHardwareInfiniband, kLinkAddressOctets)) {
        return Translation::kMalformed;
    }
    if (out.size() < kEthernetArpOctets) {
        return Translation::kNoRoom;
    }
    Mac sender{};
    Mac target{};
    const LinkAddress target_address = read_link_address(arp.subspan(32));
    const bool has_target = target_address.qpn != 0 || target_address.gid != Gid{};
    if (!map.to_mac(read_link_address(arp.subspan(kArpFixedOctets)), sender)) {
        return Translation::kMalformed;
    }
    // A target that cannot be is one that is not known yet.
    if (has_target && !map.to_mac(target_address, target)) {
        target = {};
    }
    write_arp_head(out, arp, kHardwareEthernet, kMacOctets);
    std::copy(sender.begin(), sender.end(), out.begin() + 8);
    std::copy_n(arp.begin() + 28, 4, out.begin() + 14);
    std::copy(target.begin(), target.end(), out.begin() + 18);
    std::copy_n(arp.begin() + 52, 4, out.begin() + 24);
    return Translation::kDone;
}

bool is_neighbour_discovery(ConstOctets packet) {
    return packet.size() >= kIpv6HeaderOctets + 8 && u8_at(packet, 0) >> 4U == 6 &&
           u8_at(packet, 6) == kIcmpv6 && options_at(u8_at(packet, kIpv6HeaderOctets)) != 0;
}

Translation discovery_to_link(ConstOctets packet, AddressMap& map, Octets out, std::size_t& octets) {
    return copy_options(packet, out, octets, [&](ConstOctets option, Octets room, std::size_t& written) {
        written = kIpoibOption * 8;
        LinkAddress address;
        if (option.size() != kEthernetOption * 8) {
            return Translation::kMalformed;
        }
        if (!map.to_link(read_mac(option.subspan(2)), address)) {
            return Translation::kUnknown;
        }
        if (room.size() < written) {
            return Translation::kNoRoom;
        }
        put_u8(room, 0, u8_at(option, 0));
        put_u8(room, 1, kIpoibOption);
        // Two zero octets stand in front of the address (RFC 4391, 9.3).
        put_u16(room, 2, 0);
        write_link_address(room.subspan(4), address);
        return Translation::kDone;
    });
}

Translation discovery_to_ethernet(ConstOctets packet, AddressMap& map, Octets out, std::size_t& octets) {
    return copy_options(packet, out, octets, [&](ConstOctets option, Octets room, std::size_t& written) {
        written = kEthernetOption * 8;
        Mac mac{};
        if (option.size() != kIpoibOption * 8 || !map.to_mac(read_link_address(option.subspan(4)), mac)) {
            return Translation::kMalformed;
        }
        if (room.size() < written) {
            return Translation::kNoRoom;
        }
        put_u8(room, 0, u8_at(option, 0));
        put_u8(room, 1, kEthernetOption);
        std::copy(mac.begin(), mac.end(), room.begin() + 2);
        return Translation::kDone;
    });
}

}  // namespace urnic::ipoib
