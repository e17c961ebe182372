#include "ulp/ipoib/engine/segmenter.h"

#include <algorithm>

#include "ulp/ipoib/codec/frame.h"

namespace urnic::ipoib {

namespace {

/// Returns whether the kind of segmentation is that of the packet's headers.
bool is_of_kind(Segmentation segmentation, const Transport& transport) {
    switch (segmentation) {
        case Segmentation::kTcpIpv4:
            return transport.protocol == kTcp && !transport.is_ipv6;
        case Segmentation::kTcpIpv6:
            return transport.protocol == kTcp && transport.is_ipv6;
        case Segmentation::kUdp:
            return transport.protocol == kUdp;
        default:
            return false;
    }
}

}  // namespace

Segmenter::Start Segmenter::start(ConstOctets prefix, ConstOctets packet, const Offload& offload,
                                  std::size_t mtu) {
    data_ = {};
    at_ = 0;
    index_ = 0;
    const std::optional<Transport> transport = find_transport(packet);
    if (!transport || !is_of_kind(offload.segmentation, *transport) || offload.segment_octets == 0 ||
        !offload.needs_checksum || offload.checksum_start != kEthernetHeaderOctets + transport->at ||
        offload.checksum_offset != (transport->protocol == kTcp ? kTcpChecksumAt : kUdpChecksumAt) ||
        prefix.size() + transport->header_octets > header_.size()) {
        return Start::kMalformed;
    }
    const ConstOctets data = packet.subspan(transport->header_octets);
    if (data.empty()) {
        return Start::kMalformed;
    }
    if (transport->header_octets + std::min<std::size_t>(offload.segment_octets, data.size()) > mtu) {
        return Start::kTooLong;
    }
    std::copy(prefix.begin(), prefix.end(), header_.begin());
    prefix_octets_ = prefix.size();
    transport_ = *transport;
    packet_ = packet;
    data_ = data;
    segment_octets_ = offload.segment_octets;
    return Start::kDone;
}

void Segmenter::advance() {
    at_ += std::min(segment_octets_, data_.size() - at_);
    ++index_;
}

void Segmenter::write_lengths(Octets packet, std::size_t octets) const {
    if (transport_.is_ipv6) {
        put_u16(packet, 4, static_cast<std::uint16_t>(octets - kIpv6HeaderOctets));
        return;
    }
    put_u16(packet, 2, static_cast<std::uint16_t>(octets));
    put_u16(packet, 4, static_cast<std::uint16_t>(u16_at(packet_, 4) + index_));
    put_u16(packet, 10, 0);
    put_u16(packet, 10, static_cast<std::uint16_t>(~fold(sum_words(packet.first(transport_.at)))));
}

Segment Segmenter::segment() {
    const ConstOctets data = data_.subspan(at_, std::min(segment_octets_, data_.size() - at_));
    const bool is_last = at_ + data.size() == data_.size();
    const Octets header = Octets(header_).first(prefix_octets_ + transport_.header_octets);
    const Octets packet = header.subspan(prefix_octets_);
    std::copy_n(packet_.begin(), packet.size(), packet.begin());
    write_lengths(packet, packet.size() + data.size());
    const Octets transport = packet.subspan(transport_.at);
    std::size_t checksum_at = kUdpChecksumAt;
    if (transport_.protocol == kTcp) {
        checksum_at = kTcpChecksumAt;
        put_u32(transport, 4, u32_at(transport, 4) + static_cast<std::uint32_t>(at_));
        std::uint8_t flags = u8_at(transport, kTcpFlagsAt);
        // The last segment ends what was written; the first answers the congestion mark (RFC 3168, 6.1.2).
        flags &= static_cast<std::uint8_t>(is_last ? 0xFF : ~(kTcpFin | kTcpPsh));
        flags &= static_cast<std::uint8_t>(at_ == 0 ? 0xFF : ~kTcpCwr);
        put_u8(transport, kTcpFlagsAt, flags);
    } else {
        put_u16(transport, 4, static_cast<std::uint16_t>(kUdpHeaderOctets + data.size()));
    }
    put_u16(transport, checksum_at, 0);
    // Headers have an even number of octets, so the data's sum can be added as it is.
    const std::uint64_t pseudo = pseudo_header_sum(packet, transport_, transport.size() + data.size());
    const auto sum = static_cast<std::uint16_t>(~fold(sum_words(data, sum_words(transport, pseudo))));
    put_u16(transport, checksum_at, sum == 0 && transport_.protocol == kUdp ? 0xFFFF : sum);
    return {header, data};
}

}  // namespace urnic::ipoib
