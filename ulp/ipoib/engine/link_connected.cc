// Connected mode of a link (RFC 4755): which packets go by connections, and what becomes of those that are
// longer than what their destination takes.
#include <algorithm>

#include "ulp/ipoib/codec/too_big.h"
#include "ulp/ipoib/engine/link.h"

namespace urnic::ipoib {

namespace {

/// Frames that wait for connections.
constexpr std::size_t kMostHeld = 32;
constexpr std::size_t kMostHeldOfAPeer = 8;

bool is_tcp(Segmentation segmentation) {
    return segmentation == Segmentation::kTcpIpv4 || segmentation == Segmentation::kTcpIpv6;
}

/// Octets of the longest packet that a frame becomes.
std::size_t longest_packet(ConstOctets packet, const Offload& offload) {
    if (offload.segmentation == Segmentation::kNone) {
        return packet.size();
    }
    const std::optional<Transport> transport = find_transport(packet);
    return transport ? std::min(packet.size(), transport->header_octets + offload.segment_octets)
                     : packet.size();
}

/// How TCP of the kernel's own is cut for a smaller MTU; segmentation kNone: it cannot be.
Offload cut_tcp(ConstOctets packet, Offload offload, std::uint32_t mtu) {
    const std::optional<Transport> transport = find_transport(packet);
    // Without a checksum to be made the frame has come from elsewhere, and its checksum is not ours to make.
    if (!transport || transport->protocol != kTcp || !offload.needs_checksum ||
        transport->header_octets >= mtu ||
        (offload.segmentation != Segmentation::kNone && !is_tcp(offload.segmentation))) {
        return {};
    }
    offload.segmentation = transport->is_ipv6 ? Segmentation::kTcpIpv6 : Segmentation::kTcpIpv4;
    offload.segment_octets = static_cast<std::uint16_t>(mtu - transport->header_octets);
    return offload;
}

}  // namespace

// --- out

void Link::send_cm(const LinkAddress& to, const Mad& mad) {
    // Without a slot it is lost, as on the wire; it is sent again by a timer.
    static_cast<void>(send_or_wait(to, kTypeCm, mad));
}

bool Link::take_connected(Octets frame, const Offload& offload) {
    if (frame.size() <= kEthernetHeaderOctets) {
        return false;
    }
    const std::uint16_t type = u16_at(frame, 12);
    const ConstOctets packet = frame.subspan(kEthernetHeaderOctets);
    if (type != (u8_at(packet, 0) >> 4U == 6 ? kTypeIpv6 : kTypeIpv4) ||
        (type == kTypeIpv6 && is_neighbour_discovery(packet))) {
        return false;
    }
    const Mac mac = read_mac(frame);
    const bool is_short = longest_packet(packet, offload) <= config_.mtu;
    if (is_multicast(mac) && is_short) {
        return false;
    }
    const Neighbour* neighbour = destination_of(mac, type, packet);
    if (neighbour == nullptr) {
        return true;
    }
    const LinkAddress to = neighbour->address;
    Connections::PeerRoute route;
    if (!is_multicast(mac) && (to.flags & kSupportsRc) != 0) {
        route = connections_->route_to(to);
    }
    if (route.kind == Connections::RouteKind::kConnected) {
        send_connected(to, route, frame, offload);
        return true;
    }
    if (is_short) {
        return false;
    }
    const bool can_be_cut = cut_tcp(packet, offload, config_.mtu).segmentation != Segmentation::kNone;
    if (route.kind == Connections::RouteKind::kPending && !can_be_cut) {
        hold(to, frame, offload);
    } else if (route.kind == Connections::RouteKind::kLater && !can_be_cut && !can_fragment(packet)) {
        // The kernel would keep to an ICMP error's MTU for ten minutes.
        ++counters_.tx_no_connection;
    } else {
        send_too_long(to, frame, offload, config_.mtu);
    }
    return true;
}

void Link::send_connected(const LinkAddress& to, const Connections::PeerRoute& route, Octets frame,
                          const Offload& offload) {
    const std::uint16_t type = u16_at(frame, 12);
    const ConstOctets packet = frame.subspan(kEthernetHeaderOctets);
    if (longest_packet(packet, offload) > route.mtu) {
        send_too_long(to, frame, offload, route.mtu);
        return;
    }
    if (offload.segmentation != Segmentation::kNone) {
        start_segments(to, route.qpn, type, packet, offload, route.mtu);
        return;
    }
    if (offload.needs_checksum && !complete_checksum(frame, offload)) {
        ++counters_.tx_malformed;
        return;
    }
    if (!rc_->send(route.qpn, encapsulation(type), packet)) {
        ++counters_.tx_no_slot;
        return;
    }
    ++counters_.tx_connected;
    count_sent(to, packet.size());
}

void Link::resume_connected() {
    if (!connections_->is_established(segments_qpn_)) {
        // TCP sends them again, by datagrams or by the next connection.
        segmenter_.drop();
        return;
    }
    for (; !segmenter_.is_done(); segmenter_.advance()) {
        const Segment segment = segmenter_.segment();
        if (!rc_->send(segments_qpn_, segment.header, segment.data)) {
            if (rc_->free_slots() != 0) {
                // A peer that does not take what it has: it does not hold up the others.
                ++counters_.tx_no_slot;
                segmenter_.drop();
            }
            return;
        }
        ++counters_.tx_connected;
        count_sent(segments_to_, segment.header.size() - kEncapsulationOctets + segment.data.size());
    }
}

void Link::send_too_long(const LinkAddress& to, Octets frame, const Offload& offload, std::uint32_t mtu) {
    const std::uint16_t type = u16_at(frame, 12);
    const ConstOctets packet = frame.subspan(kEthernetHeaderOctets);
    if (const Offload cut = cut_tcp(packet, offload, config_.mtu); cut.segmentation != Segmentation::kNone) {
        start_segments(to, 0, type, packet, cut, config_.mtu);
        return;
    }
    if (offload.segmentation != Segmentation::kNone) {
        ++counters_.tx_too_long;
        return;
    }
    if (offload.needs_checksum && !complete_checksum(frame, offload)) {
        ++counters_.tx_malformed;
        return;
    }
    if (can_fragment(packet)) {
        ++counters_.tx_fragmented;
        for (const std::vector<std::byte>& fragment : fragment_ipv4(packet, config_.mtu)) {
            send_datagram(to, type, fragment);
        }
        return;
    }
    const std::optional<std::vector<std::byte>> error = too_big_error(packet, mtu);
    if (!error) {
        ++counters_.tx_too_long;
        return;
    }
    ++counters_.tx_too_big;
    std::array<std::byte, kEthernetHeaderOctets> header{};
    std::copy(config_.own_mac.begin(), config_.own_mac.end(), header.begin());
    std::copy_n(frame.begin(), config_.own_mac.size(), header.begin() + 6);
    put_u16(header, 12, type);
    outbox_.deliver(header, *error);
}

// --- waiting for a connection

void Link::hold(const LinkAddress& to, Octets frame, const Offload& offload) {
    const auto of_peer =
        std::count_if(held_.begin(), held_.end(), [&](const Held& held) { return held.to == to; });
    if (offload.segmentation != Segmentation::kNone || held_.size() >= kMostHeld ||
        of_peer >= static_cast<std::ptrdiff_t>(kMostHeldOfAPeer)) {
        ++counters_.tx_no_slot;
        return;
    }
    if (offload.needs_checksum && !complete_checksum(frame, offload)) {
        ++counters_.tx_malformed;
        return;
    }
    ++counters_.tx_held;
    held_.push_back({to, {frame.begin(), frame.end()}});
}

void Link::settle() {
    for (const LinkAddress& peer : connections_->take_settled()) {
        std::vector<Held> released;
        for (Held& held : held_) {
            if (held.to == peer) {
                released.push_back(std::move(held));
            }
        }
        std::erase_if(held_, [&](const Held& held) { return held.to == peer; });
        for (Held& held : released) {
            // By the new connection; or, without one, as anything that is too long.
            if (!take_connected(held.frame, {})) {
                ++counters_.tx_too_long;
            }
        }
    }
}

// --- in, and time

void Link::on_connected(std::uint32_t qpn, ConstOctets payload) {
    const LinkAddress* peer = connections_->on_received(qpn);
    if (peer == nullptr) {
        ++counters_.rx_no_source;
        return;
    }
    const LinkAddress source = *peer;
    if (payload.size() <= kEncapsulationOctets) {
        ++counters_.rx_too_short;
        return;
    }
    const std::uint16_t type = u16_at(payload, 0);
    const ConstOctets packet = payload.subspan(kEncapsulationOctets);
    // ARP, broadcast and multicast are the UD QP's.
    if ((type != kTypeIpv4 && type != kTypeIpv6) || multicast_mac(type, packet)) {
        ++counters_.rx_other_type;
        return;
    }
    ++counters_.rx_connected;
    deliver(source, type, packet);
    settle();
}

void Link::on_acknowledged(std::uint32_t qpn) { connections_->on_acknowledged(qpn); }

void Link::on_broken(std::uint32_t qpn) {
    connections_->on_broken(qpn);
    settle();
}

void Link::advance(std::uint64_t now_ms) {
    if (connections_ != nullptr) {
        connections_->advance(now_ms);
        settle();
    }
}

}  // namespace urnic::ipoib
