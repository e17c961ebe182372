#include "ulp/ipoib/engine/coalescer.h"

#include <algorithm>

namespace urnic::ipoib {

namespace {

constexpr std::size_t kMostPacketOctets = 65535;
constexpr std::size_t kPortsOctets = 4;
constexpr std::size_t kAcknowledgementAt = 8;
constexpr std::size_t kWindowAt = 14;
constexpr std::size_t kUrgentPointerAt = 18;

bool is_equal(ConstOctets a, ConstOctets b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

/// Returns whether a packet is TCP by its IP header alone, however broken the rest is.
bool is_tcp(ConstOctets packet) {
    const std::uint8_t version = packet.empty() ? 0 : u8_at(packet, 0) >> 4U;
    return (version == 4 && packet.size() >= kIpv4HeaderOctets && u8_at(packet, 9) == kTcp) ||
           (version == 6 && packet.size() >= kIpv6HeaderOctets && u8_at(packet, 6) == kTcp);
}

/// Returns whether the headers are those that segmentation makes again: no IP options, no extension headers.
bool has_plain_headers(const Transport& transport) {
    return transport.at == (transport.is_ipv6 ? kIpv6HeaderOctets : kIpv4HeaderOctets);
}

/// Returns whether all checksums are right. Who merges takes the kernel's chance to find a wrong one.
bool has_good_checksums(ConstOctets packet, const Transport& transport) {
    const ConstOctets segment = packet.subspan(transport.at);
    return (transport.is_ipv6 || fold(sum_words(packet.first(transport.at))) == 0xFFFF) &&
           fold(sum_words(segment, pseudo_header_sum(packet, transport, segment.size()))) == 0xFFFF;
}

/// Returns whether the fields of IP are the same but for lengths, identifications, checksums.
bool has_same_ip(ConstOctets a, ConstOctets b, bool is_ipv6) {
    if (is_ipv6) {
        return is_equal(a.first(4), b.first(4)) && is_equal(a.subspan(6, 34), b.subspan(6, 34));
    }
    return is_equal(a.first(2), b.first(2)) && is_equal(a.subspan(6, 4), b.subspan(6, 4)) &&
           is_equal(a.subspan(12, 8), b.subspan(12, 8));
}

/// Returns whether the fields of TCP are the same but for the sequence number, the checksum, FIN and PSH.
bool has_same_tcp(ConstOctets a, ConstOctets b) {
    constexpr std::uint8_t kMayDiffer = kTcpFin | kTcpPsh;
    const auto differing = static_cast<std::uint8_t>(u8_at(a, kTcpFlagsAt) ^ u8_at(b, kTcpFlagsAt));
    return a.size() == b.size() && is_equal(a.first(kPortsOctets), b.first(kPortsOctets)) &&
           is_equal(a.subspan(kAcknowledgementAt, 5), b.subspan(kAcknowledgementAt, 5)) &&
           (differing & static_cast<std::uint8_t>(~kMayDiffer)) == 0 &&
           is_equal(a.subspan(kWindowAt, 2), b.subspan(kWindowAt, 2)) &&
           is_equal(a.subspan(kUrgentPointerAt), b.subspan(kUrgentPointerAt));
}

ConstOctets tcp_header(ConstOctets packet, const Transport& transport) {
    return packet.subspan(transport.at, transport.header_octets - transport.at);
}

}  // namespace

Coalescer::Held* Coalescer::find(ConstOctets ethernet, ConstOctets packet, const Transport& transport) {
    const std::size_t addresses = transport.is_ipv6 ? 8 : 12;
    const std::size_t octets = transport.is_ipv6 ? 32 : 8;
    for (Held& held : held_) {
        if (held.segments != 0 && held.transport.is_ipv6 == transport.is_ipv6 &&
            is_equal(held.first.subspan(addresses, octets), packet.subspan(addresses, octets)) &&
            is_equal(held.first.subspan(held.transport.at, kPortsOctets),
                     packet.subspan(transport.at, kPortsOctets)) &&
            is_equal(held.ethernet, ethernet)) {
            return &held;
        }
    }
    return nullptr;
}

bool Coalescer::can_append(const Held& held, ConstOctets packet, const Transport& transport) {
    constexpr std::uint8_t kNeverMerged = kTcpSyn | kTcpRst | kTcpUrg | kTcpCwr;
    const ConstOctets tcp = tcp_header(packet, transport);
    const std::size_t data = packet.size() - transport.header_octets;
    if (data == 0 || data > held.data[0].size() || held.segments == kMostSegments ||
        held.octets + data > kMostPacketOctets || !has_plain_headers(transport) ||
        (u8_at(tcp, kTcpFlagsAt) & kNeverMerged) != 0 || u32_at(tcp, 4) != held.next_sequence) {
        return false;
    }
    // Segmentation numbers its packets one after the other.
    const auto identification = static_cast<std::uint16_t>(u16_at(held.first, 4) + held.segments);
    return has_same_ip(held.first, packet, transport.is_ipv6) &&
           (transport.is_ipv6 || u16_at(packet, 4) == identification) &&
           has_same_tcp(tcp_header(held.first, held.transport), tcp) && has_good_checksums(packet, transport);
}

void Coalescer::take(ConstOctets ethernet, ConstOctets packet) {
    // What is behind the length that IP says fills a frame and is no data: the kernel cuts it off.
    const std::optional<Transport> transport = find_transport(packet);
    if (!transport || transport->protocol != kTcp) {
        if (is_tcp(packet)) {
            flush();
        }
        write_alone(ethernet, packet);
        return;
    }
    Held* held = find(ethernet, packet, *transport);
    if (held != nullptr && can_append(*held, packet, *transport)) {
        const ConstOctets data = packet.subspan(transport->header_octets);
        held->data[held->segments++] = data;
        held->octets += data.size();
        held->next_sequence += static_cast<std::uint32_t>(data.size());
        held->last_flags = u8_at(packet, transport->at + kTcpFlagsAt);
        if (data.size() < held->data[0].size() || (held->last_flags & (kTcpFin | kTcpPsh)) != 0) {
            write(*held);
        }
        return;
    }
    if (held != nullptr) {
        write(*held);
    }
    constexpr std::uint8_t kNeverFirst = kTcpFin | kTcpSyn | kTcpRst | kTcpPsh | kTcpUrg | kTcpCwr;
    // Another one as long fits the same frame: a packet of a connection with its 64 KB stands alone, and its
    // checksum is the kernel's to verify.
    const bool has_room = 2 * packet.size() - transport->header_octets <= kMostPacketOctets;
    const bool may_be_followed = has_room && packet.size() > transport->header_octets &&
                                 has_plain_headers(*transport) &&
                                 (u8_at(packet, transport->at + kTcpFlagsAt) & kNeverFirst) == 0;
    if (may_be_followed && has_good_checksums(packet, *transport)) {
        hold(ethernet, packet, *transport);
    } else {
        write_alone(ethernet, packet);
    }
}

void Coalescer::hold(ConstOctets ethernet, ConstOctets packet, const Transport& transport) {
    auto entry =
        std::find_if(held_.begin(), held_.end(), [](const Held& held) { return held.segments == 0; });
    if (entry == held_.end()) {
        entry = held_.begin() + static_cast<std::ptrdiff_t>(next_);
        next_ = (next_ + 1) % kMostConnections;
        write(*entry);
    }
    std::copy_n(ethernet.begin(), entry->ethernet.size(), entry->ethernet.begin());
    entry->transport = transport;
    entry->first = packet;
    entry->data[0] = packet.subspan(transport.header_octets);
    entry->segments = 1;
    entry->octets = packet.size();
    entry->next_sequence =
        u32_at(packet, transport.at + 4) + static_cast<std::uint32_t>(entry->data[0].size());
    entry->last_flags = u8_at(packet, transport.at + kTcpFlagsAt);
}

void Coalescer::flush() {
    for (Held& held : held_) {
        if (held.segments != 0) {
            write(held);
        }
    }
}

void Coalescer::write_alone(ConstOctets ethernet, ConstOctets packet) {
    const std::array<ConstOctets, 2> pieces = {ethernet, packet};
    sink_.write({}, pieces);
}

void Coalescer::write(Held& held) {
    const std::size_t segments = held.segments;
    held.segments = 0;
    if (segments == 1) {
        write_alone(held.ethernet, held.first);
        return;
    }
    ++merged_;
    const Transport& transport = held.transport;
    // Ethernet, IPv6, and TCP with all options.
    std::array<std::byte, kEthernetHeaderOctets + kIpv6HeaderOctets + 60> header{};
    std::copy(held.ethernet.begin(), held.ethernet.end(), header.begin());
    const Octets packet = Octets(header).subspan(kEthernetHeaderOctets, transport.header_octets);
    std::copy_n(held.first.begin(), packet.size(), packet.begin());
    if (transport.is_ipv6) {
        put_u16(packet, 4, static_cast<std::uint16_t>(held.octets - kIpv6HeaderOctets));
    } else {
        put_u16(packet, 2, static_cast<std::uint16_t>(held.octets));
        put_u16(packet, 10, 0);
        put_u16(packet, 10, static_cast<std::uint16_t>(~fold(sum_words(packet.first(transport.at)))));
    }
    const Octets tcp = packet.subspan(transport.at);
    put_u8(tcp, kTcpFlagsAt, u8_at(tcp, kTcpFlagsAt) | held.last_flags);
    put_u16(tcp, kTcpChecksumAt, fold(pseudo_header_sum(packet, transport, held.octets - transport.at)));
    Offload offload;
    offload.needs_checksum = true;
    offload.segmentation = transport.is_ipv6 ? Segmentation::kTcpIpv6 : Segmentation::kTcpIpv4;
    offload.header_octets = static_cast<std::uint16_t>(kEthernetHeaderOctets + packet.size());
    offload.segment_octets = static_cast<std::uint16_t>(held.data[0].size());
    offload.checksum_start = static_cast<std::uint16_t>(kEthernetHeaderOctets + transport.at);
    offload.checksum_offset = kTcpChecksumAt;
    std::array<ConstOctets, kMostSegments + 1> pieces;
    pieces[0] = ConstOctets(header).first(offload.header_octets);
    std::copy_n(held.data.begin(), segments, pieces.begin() + 1);
    sink_.write(offload, std::span(pieces).first(segments + 1));
}

}  // namespace urnic::ipoib
