#include "ulp/ipoib/engine/link.h"

#include <algorithm>

namespace urnic::ipoib {

namespace {

ConnectionConfig connections_of(const LinkConfig& config) {
    ConnectionConfig connections = config.connections;
    connections.own = config.own;
    connections.pkey = config.scope.pkey;
    connections.least_mtu = config.mtu;
    return connections;
}

}  // namespace

Link::Link(const LinkConfig& config, Outbox& outbox, RcPort* rc)
    : config_(config),
      outbox_(outbox),
      neighbours_(outbox, std::max<std::size_t>(config.max_neighbours, 1)),
      rc_(rc) {
    if (rc != nullptr) {
        config_.own.flags |= kSupportsRc;
        connections_ =
            std::make_unique<Connections>(connections_of(config), *rc, static_cast<CmSender&>(*this));
    }
}

Link::~Link() {
    connections_.reset();
    for (const std::vector<Gid>* groups : {&groups_, &joining_}) {
        for (const Gid& group : *groups) {
            outbox_.leave(group);
        }
    }
    if (has_joined_broadcast_) {
        outbox_.leave(broadcast_gid(config_.scope));
    }
}

// --- addresses

bool Link::to_link(const Mac& mac, LinkAddress& out) {
    if (mac == config_.own_mac) {
        out = config_.own;
        return true;
    }
    const Neighbour* neighbour = neighbours_.of_mac(mac);
    if (neighbour == nullptr) {
        return false;
    }
    out = neighbour->address;
    // Flags are those of who tells them (RFC 4755, section 3.1).
    out.flags = 0;
    return true;
}

bool Link::to_mac(const LinkAddress& address, Mac& out) {
    if (address == config_.own) {
        out = config_.own_mac;
        return true;
    }
    if (!address.is_unicast()) {
        return false;
    }
    Neighbour& neighbour = neighbours_.of_address(address, Evidence::kNamed);
    neighbour.address.flags = address.flags;
    out = neighbour.mac;
    return true;
}

// --- from the TAP device

Neighbour* Link::destination_of(const Mac& mac, std::uint16_t type, ConstOctets payload) {
    if (!is_multicast(mac)) {
        Neighbour* neighbour = neighbours_.of_mac(mac);
        counters_.tx_unknown_neighbour += neighbour == nullptr ? 1 : 0;
        return neighbour;
    }
    LinkAddress group{.qpn = kMulticastQpn};
    if (mac == kBroadcastMac) {
        group.gid = broadcast_gid(config_.scope);
    } else if (const std::optional<Gid> gid = group_of_packet(config_.scope, type, payload)) {
        group.gid = *gid;
    } else {
        ++counters_.tx_other_type;
        return nullptr;
    }
    return &neighbours_.of_address(group, Evidence::kSeen);
}

ConstOctets Link::outgoing(std::uint16_t type, ConstOctets payload) {
    if (type == kTypeArp) {
        const Translation result = arp_to_link(payload, *this, scratch_);
        count_failure(result, true);
        return result == Translation::kDone ? ConstOctets(scratch_).first(kIpoibArpOctets) : ConstOctets();
    }
    if (type == kTypeIpv6 && is_neighbour_discovery(payload)) {
        std::size_t octets = 0;
        const Translation result =
            discovery_to_link(payload, *this, Octets(scratch_).first(config_.mtu), octets);
        count_failure(result, true);
        return result == Translation::kDone ? ConstOctets(scratch_).first(octets) : ConstOctets();
    }
    return payload;
}

void Link::on_frame(ConstOctets frame) {
    if (frame.size() <= kEthernetHeaderOctets) {
        ++counters_.tx_malformed;
        return;
    }
    const std::uint16_t type = u16_at(frame, 12);
    ConstOctets payload = frame.subspan(kEthernetHeaderOctets);
    if (type != kTypeArp && type != kTypeIpv4 && type != kTypeIpv6) {
        ++counters_.tx_other_type;
        return;
    }
    const Neighbour* to = destination_of(read_mac(frame), type, payload);
    if (to == nullptr) {
        return;
    }
    // The map may drop the entry while it translates.
    const LinkAddress address = to->address;
    payload = outgoing(type, payload);
    if (payload.empty()) {
        return;
    }
    if (payload.size() > config_.mtu) {
        ++counters_.tx_too_long;
        return;
    }
    send_datagram(address, type, payload);
}

void Link::send_datagram(const LinkAddress& to, std::uint16_t type, ConstOctets packet) {
    if (send_or_wait(to, type, packet)) {
        count_sent(to, packet.size());
    }
}

bool Link::send_or_wait(const LinkAddress& to, std::uint16_t type, ConstOctets packet) {
    const AddressHandle handle = handle_of(to);
    if (handle == kPendingHandle) {
        wait_for_handle(to, type, packet);
        return false;
    }
    if (handle == 0) {
        return false;
    }
    const bool is_sent = outbox_.send(handle, to.qpn, encapsulation(type), packet);
    counters_.tx_no_slot += is_sent ? 0 : 1;
    return is_sent;
}

AddressHandle Link::handle_of(const LinkAddress& address) {
    Neighbour& neighbour = neighbours_.of_address(address, Evidence::kNamed);
    if (neighbour.handle == 0) {
        const AddressHandle handle = outbox_.create_handle(address.gid);
        if (handle == kPendingHandle) {
            return handle;
        }
        neighbour.handle = handle;
    }
    counters_.tx_no_handle += neighbour.handle == 0 ? 1 : 0;
    return neighbour.handle;
}

void Link::count_sent(const LinkAddress& address, std::size_t octets) {
    ++counters_.tx_packets;
    counters_.tx_octets += octets;
    counters_.tx_multicast += address.qpn == kMulticastQpn ? 1 : 0;
}

void Link::on_frame(Octets frame, const Offload& offload) {
    if (connections_ != nullptr && take_connected(frame, offload)) {
        return;
    }
    if (offload.segmentation == Segmentation::kNone) {
        if (offload.needs_checksum && !complete_checksum(frame, offload)) {
            ++counters_.tx_malformed;
            return;
        }
        on_frame(frame);
        return;
    }
    if (frame.size() <= kEthernetHeaderOctets) {
        ++counters_.tx_malformed;
        return;
    }
    const std::uint16_t type = u16_at(frame, 12);
    const ConstOctets packet = frame.subspan(kEthernetHeaderOctets);
    if (type != (u8_at(packet, 0) >> 4U == 6 ? kTypeIpv6 : kTypeIpv4)) {
        ++counters_.tx_malformed;
        return;
    }
    const Neighbour* to = destination_of(read_mac(frame), type, packet);
    if (to == nullptr) {
        return;
    }
    start_segments(to->address, 0, type, packet, offload, config_.mtu);
}

void Link::start_segments(const LinkAddress& to, std::uint32_t qpn, std::uint16_t type, ConstOctets packet,
                          const Offload& offload, std::size_t mtu) {
    switch (segmenter_.start(encapsulation(type), packet, offload, mtu)) {
        case Segmenter::Start::kDone:
            ++counters_.tx_segmented;
            segments_to_ = to;
            segments_qpn_ = qpn;
            resume();
            break;
        case Segmenter::Start::kMalformed:
            ++counters_.tx_malformed;
            break;
        case Segmenter::Start::kTooLong:
            ++counters_.tx_too_long;
            break;
    }
}

void Link::resume() {
    if (segmenter_.is_done()) {
        return;
    }
    if (segments_qpn_ != 0) {
        resume_connected();
        return;
    }
    const AddressHandle handle = handle_of(segments_to_);
    if (handle == 0 || handle == kPendingHandle) {
        // TCP sends them again; a way to a neighbour that it has a connection with is rarely unknown.
        counters_.tx_no_handle += handle == kPendingHandle ? 1 : 0;
        segmenter_.drop();
        return;
    }
    for (; !segmenter_.is_done(); segmenter_.advance()) {
        const Segment segment = segmenter_.segment();
        if (!outbox_.send(handle, segments_to_.qpn, segment.header, segment.data)) {
            return;
        }
        count_sent(segments_to_, segment.header.size() - kEncapsulationOctets + segment.data.size());
    }
}

// --- from the QP

ConstOctets Link::incoming(std::uint16_t type, ConstOctets payload) {
    if (type == kTypeArp) {
        const Translation result = arp_to_ethernet(payload, *this, scratch_);
        count_failure(result, false);
        return result == Translation::kDone ? ConstOctets(scratch_).first(kEthernetArpOctets) : ConstOctets();
    }
    if (type == kTypeIpv6 && is_neighbour_discovery(payload)) {
        std::size_t octets = 0;
        const Translation result = discovery_to_ethernet(payload, *this, scratch_, octets);
        count_failure(result, false);
        return result == Translation::kDone ? ConstOctets(scratch_).first(octets) : ConstOctets();
    }
    return payload;
}

void Link::on_datagram(ConstOctets grh, std::uint32_t source_qpn, ConstOctets payload) {
    if (payload.size() <= kEncapsulationOctets) {
        ++counters_.rx_too_short;
        return;
    }
    if (payload.size() > config_.mtu + kEncapsulationOctets) {
        ++counters_.rx_too_long;
        return;
    }
    const std::optional<Gid> gid = source_gid(grh, config_.own.gid);
    if (!gid) {
        ++counters_.rx_no_source;
        return;
    }
    const LinkAddress source{.qpn = source_qpn, .gid = *gid};
    if (source == config_.own) {
        ++counters_.rx_own;
        return;
    }
    // The second half of the encapsulation header is reserved and ignored (section 6).
    const std::uint16_t type = u16_at(payload, 0);
    const ConstOctets packet = payload.subspan(kEncapsulationOctets);
    if (type == kTypeCm && connections_ != nullptr && source.is_unicast()) {
        if (handle_of(source) == kPendingHandle) {
            // Neither an answer nor a connection has a way yet; its sender repeats it.
            return;
        }
        connections_->on_message(source, packet);
        settle();
        return;
    }
    if ((type != kTypeArp && type != kTypeIpv4 && type != kTypeIpv6) || !source.is_unicast()) {
        ++counters_.rx_other_type;
        return;
    }
    deliver(source, type, packet);
}

void Link::deliver(const LinkAddress& source, std::uint16_t type, ConstOctets packet) {
    const Mac source_mac = neighbours_.of_address(source, Evidence::kSeen).mac;
    const bool is_arp_request =
        type == kTypeArp && packet.size() >= kArpOperationEnd && u16_at(packet, 6) == 1;
    packet = incoming(type, packet);
    if (packet.empty()) {
        return;
    }
    const std::optional<Mac> group = is_arp_request ? kBroadcastMac : multicast_mac(type, packet);
    const Mac destination = group.value_or(config_.own_mac);
    std::array<std::byte, kEthernetHeaderOctets> header{};
    std::copy(destination.begin(), destination.end(), header.begin());
    std::copy(source_mac.begin(), source_mac.end(), header.begin() + 6);
    put_u16(header, 12, type);
    outbox_.deliver(header, packet);
    ++counters_.rx_packets;
    counters_.rx_octets += packet.size();
    counters_.rx_multicast += group ? 1 : 0;
}

void Link::count_failure(Translation result, bool is_outgoing) {
    switch (result) {
        case Translation::kDone:
            break;
        case Translation::kMalformed:
            ++(is_outgoing ? counters_.tx_malformed : counters_.rx_malformed);
            break;
        case Translation::kUnknown:
            ++(is_outgoing ? counters_.tx_unknown_neighbour : counters_.rx_malformed);
            break;
        case Translation::kNoRoom:
            ++(is_outgoing ? counters_.tx_too_long : counters_.rx_too_long);
            break;
    }
}

}  // namespace urnic::ipoib
