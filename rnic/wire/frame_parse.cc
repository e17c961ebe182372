// Frames in: Ethernet, IP, UDP and transport headers, every length checked before it is used.
#include <algorithm>

#include "base/bytes.h"
#include "rnic/wire/blank_header.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/frame_parser.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"
#include "rnic/wire/packet_front.h"
#include "rnic/wire/peek.h"
#include "rnic/wire/transport_headers.h"

namespace urnic::wire {

namespace {

/// Where the layers of a frame lie. Only what both peek_dest_qp() and parse_frame() need is checked here.
struct Layers {
    const std::byte* ip = nullptr;
    const std::byte* udp = nullptr;
    std::size_t ip_bytes = 0;  // of the frame, from `ip` on; Ethernet's padding included
    std::uint16_t vlan_tci = 0;
    bool is_ipv4 = true;
    bool has_options = false;
};

/// Finds IP and UDP. Returns whether it is an unfragmented UDP datagram to port 4791.
bool find_layers(std::span<const std::byte> frame, Layers& layers) {
    const Peek link = peek(frame);
    if (link.ether_type == 0) {
        return false;
    }
    layers.vlan_tci = link.vlan_tci;
    const std::span<const std::byte> l3 = frame.subspan(link.l3_offset);
    layers.ip_bytes = l3.size();
    layers.ip = l3.data();
    std::size_t udp_offset = kIpv6Bytes;
    if (link.ether_type == kEtherTypeIpv4) {
        if (l3.size() < kIpv4Bytes || (l3[0] >> 4U) != std::byte{4} ||
            std::to_integer<std::uint8_t>(l3[kIpv4Protocol]) != kProtocolUdp ||
            (load_be16(&l3[kIpv4Fragment]) & kIpv4FragmentMask) != 0) {
            return false;
        }
        udp_offset = std::to_integer<std::size_t>(l3[0] & std::byte{0x0f}) * 4;
        if (udp_offset < kIpv4Bytes) {
            return false;
        }
        layers.is_ipv4 = true;
        layers.has_options = udp_offset != kIpv4Bytes;
    } else if (link.ether_type == kEtherTypeIpv6) {
        if (l3.size() < kIpv6Bytes || (l3[0] >> 4U) != std::byte{6} ||
            std::to_integer<std::uint8_t>(l3[kIpv6NextHeader]) != kProtocolUdp) {
            return false;
        }
        layers.is_ipv4 = false;
    } else {
        return false;
    }
    if (l3.size() < udp_offset + kUdpBytes) {
        return false;
    }
    layers.udp = l3.data() + udp_offset;
    return load_be16(layers.udp + kUdpDestinationPort) == kRocev2UdpPort;
}

/// Sum of 16-bit words for the Internet checksum (RFC 1071), in host order words: folding commutes with the
/// byte swap, so a result is right or wrong in either order.
std::uint64_t checksum_words(const std::byte* data, std::size_t length_bytes, std::uint64_t sum) {
    while (length_bytes >= 4) {
        sum += load_le32(data);
        data += 4;
        length_bytes -= 4;
    }
    if (length_bytes != 0) {
        std::uint32_t rest = 0;
        std::memcpy(&rest, data, length_bytes);
        sum += rest;
    }
    return sum;
}

std::uint64_t folded(std::uint64_t sum) {
    sum = (sum & 0xffff'ffffU) + (sum >> 32U);
    sum = (sum & 0xffff'ffffU) + (sum >> 32U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    return (sum & 0xffffU) + (sum >> 16U);
}

bool checksum_good(std::uint64_t sum) { return folded(sum) == 0xffffU; }

/// The 20 bytes of a header without options, in three steps and no loop: this runs for each packet.
bool ipv4_checksum_good(const std::byte* ip) {
    const std::uint64_t a = load_le64(ip);
    const std::uint64_t b = load_le64(ip + 8);
    return checksum_good((a & 0xffff'ffffU) + (a >> 32U) + (b & 0xffff'ffffU) + (b >> 32U) +
                         load_le32(ip + 16));
}

/// RFC 768 and RFC 8200 8.1: pseudo header (addresses, protocol, UDP length), then the datagram.
bool udp_checksum_good(const Layers& layers, std::size_t udp_bytes) {
    const std::size_t addresses = layers.is_ipv4 ? kIpv4Source : kIpv6Source;
    const std::size_t address_bytes = layers.is_ipv4 ? 8 : 32;
    std::uint64_t sum = __builtin_bswap16(kProtocolUdp) +
                        std::uint64_t{__builtin_bswap16(static_cast<std::uint16_t>(udp_bytes))};
    sum = checksum_words(layers.ip + addresses, address_bytes, sum);
    // A kernel on this host that has cut segments leaves the rest of the sum to a device which they never
    // reach (CHECKSUM_PARTIAL): the field has the pseudo header's.
    return checksum_good(checksum_words(layers.udp, udp_bytes, sum)) ||
           load_le16(layers.udp + kUdpChecksum) == folded(sum);
}

/// What IPv4's total length leaves for UDP; 0 when it is wrong.
std::size_t ipv4_payload_bytes(const Layers& layers) {
    const std::size_t total = load_be16(layers.ip + kIpv4TotalLength);
    return total > layers.ip_bytes || total < kIpv4Bytes + kUdpBytes ? 0 : total - kIpv4Bytes;
}

/// Returns whether UDP's length is `udp_bytes`, and its checksum right.
bool udp_good(const Layers& layers, std::size_t udp_bytes) {
    // A checksum of zero says that the sender made none. Over IPv6 that is not the rule, but what RoCEv2
    // senders do.
    return load_be16(layers.udp + kUdpLength) == udp_bytes &&
           (load_be16(layers.udp + kUdpChecksum) == 0 || udp_checksum_good(layers, udp_bytes));
}

/// The lengths and checksums of IP and UDP. Gives the UDP length, header included; 0 when they are wrong.
std::size_t checked_udp_bytes(const Layers& layers) {
    std::size_t udp_bytes = 0;
    if (layers.is_ipv4) {
        udp_bytes = ipv4_payload_bytes(layers);
        if (layers.has_options || udp_bytes == 0 || !ipv4_checksum_good(layers.ip)) {
            return 0;
        }
    } else {
        udp_bytes = load_be16(layers.ip + kIpv6PayloadLength);
        if (udp_bytes > layers.ip_bytes - kIpv6Bytes) {
            return 0;
        }
    }
    return udp_good(layers, udp_bytes) ? udp_bytes : 0;
}

/// The transport headers and the payload of a packet whose UDP datagram has this length; 0: it is malformed.
[[gnu::always_inline]] inline ParseError parse_transport(const Layers& layers, std::size_t udp_bytes,
                                                         PacketView& view) {
    // IB packets are whole words: the pad bytes see to that (IBA 9.2.3), so an odd length was never one.
    if (udp_bytes < kUdpBytes + kBthBytes + kIcrcBytes || udp_bytes % 4 != 0) {
        return ParseError::kMalformed;
    }
    const std::byte* bth = layers.udp + kUdpBytes;
    const std::size_t transport_bytes = udp_bytes - kUdpBytes - kIcrcBytes;
    view.header = kBlankHeader;
    parse_bth(bth, view.header);
    // What a reserved opcode is answered with is for the QP to say (IBA 9.7.4.1.3): all behind its BTH counts
    // as payload.
    const OpcodeInfo& info = opcode_info(view.header.opcode);
    const bool has_payload = (info.flags & (kHasPayload | kValid)) != kValid;
    const std::size_t needed = std::size_t{info.header_bytes} + view.header.pad_count;
    if (view.header.tver != 0 || transport_bytes < needed) {
        return ParseError::kMalformed;
    }
    const std::size_t payload_bytes = transport_bytes - needed;
    if (!has_payload && (payload_bytes != 0 || view.header.pad_count != 0)) {
        return ParseError::kMalformed;
    }
    parse_extended(bth + kBthBytes, info.headers, view.header);
    view.payload = {bth + info.header_bytes, payload_bytes};
    view.l3 = {layers.ip, static_cast<std::size_t>(bth - layers.ip) + transport_bytes};
    return ParseError::kNone;
}

// Of an untagged frame with IPv4 and without options.
constexpr std::size_t kUdpInFrame = kEthernetBytes + kIpv4Bytes;

}  // namespace

ParseError parse_frame(std::span<const std::byte> frame, PacketView& view) {
    Layers layers;
    if (!find_layers(frame, layers)) {
        return ParseError::kNotRoce;
    }
    const ParseError error = parse_transport(layers, checked_udp_bytes(layers), view);
    if (error == ParseError::kNone) {
        parse_addresses({frame.data(), layers.ip, layers.udp, layers.vlan_tci, layers.is_ipv4}, view);
    }
    return error;
}

// Compares what find_layers(), the checksum and parse_addresses() make of bytes that no two frames of a path
// differ in. The UDP source port may differ: QPs have different ones.
bool FrameParser::is_known(const std::byte* frame) const {
    const std::byte* const ip = frame + kEthernetBytes;
    return has_front_ &&
           ((load_le64(frame) ^ front_.macs) | (load_le64(frame + 8) ^ front_.source_to_tos) |
            (load_le32(ip + kIpv4Fragment) ^ front_.fragment_to_protocol) |
            (load_le64(ip + kIpv4Source) ^ front_.addresses) |
            (load_be16(frame + kUdpInFrame + kUdpDestinationPort) ^ std::uint64_t{kRocev2UdpPort})) == 0;
}

void FrameParser::remember(const std::byte* frame) {
    const std::byte* const ip = frame + kEthernetBytes;
    front_ = {.macs = load_le64(frame),
              .source_to_tos = load_le64(frame + 8),
              .fragment_to_protocol = load_le32(ip + kIpv4Fragment),
              .addresses = load_le64(ip + kIpv4Source)};
    front_.sum = std::uint64_t{load_le16(ip)} + front_.fragment_to_protocol +
                 (front_.addresses & 0xffff'ffffU) + (front_.addresses >> 32U);
}

ParseError FrameParser::parse(std::span<const std::byte> frame) {
    if (frame.size() >= kUdpInFrame + kUdpBytes && is_known(frame.data())) [[likely]] {
        Layers layers;
        layers.ip = frame.data() + kEthernetBytes;
        layers.udp = frame.data() + kUdpInFrame;
        layers.ip_bytes = frame.size() - kEthernetBytes;
        const std::uint64_t sum =
            front_.sum + load_le32(layers.ip + kIpv4TotalLength) + load_le16(layers.ip + kIpv4Checksum);
        const std::size_t udp_bytes = ipv4_payload_bytes(layers);
        if (!checksum_good(sum) || !udp_good(layers, udp_bytes)) {
            return ParseError::kMalformed;
        }
        view_.udp_src_port = load_be16(layers.udp + kUdpSourcePort);
        return parse_transport(layers, udp_bytes, view_);
    }
    const ParseError error = parse_frame(frame, view_);
    if (error == ParseError::kNone) {
        has_front_ = view_.is_ipv4 && view_.l3.data() == frame.data() + kEthernetBytes;
        if (has_front_) {
            remember(frame.data());
        }
    }
    return error;
}

std::uint32_t peek_dest_qp(std::span<const std::byte> frame) {
    Layers layers;
    if (!find_layers(frame, layers) ||
        static_cast<std::size_t>(layers.udp - layers.ip) + kUdpBytes + kBthBytes > layers.ip_bytes) {
        return ~0U;
    }
    return load_be32(layers.udp + kUdpBytes + kBthResv8a) & 0xff'ffffU;
}

}  // namespace urnic::wire
