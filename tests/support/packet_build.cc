#include "tests/support/packet_build.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/crc/vcrc.h"
#include "rnic/wire/dissect/ib/crc.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

namespace {

constexpr std::size_t kLongestLrhWords = 0x7ff;
constexpr std::size_t kLeastEthernetBytes = 60;  // without the FCS

/// Writes headers one after the other; once something does not fit, nothing more is written.
class Writer {
  public:
    explicit Writer(std::span<std::byte> out) : out_(out) {}

    std::byte* reserve(std::size_t length) {
        failed_ = failed_ || out_.size() - at_ < length;
        if (failed_) {
            return nullptr;
        }
        std::byte* place = out_.data() + at_;
        at_ += length;
        return place;
    }
    void header(const HeaderTable& table, const void* object) {
        if (std::byte* place = reserve(table.length_bytes)) {
            write_fields(table, object, place);
        }
    }
    void bytes(std::span<const std::byte> data) {
        std::byte* place = reserve(data.size());
        if (place != nullptr && !data.empty()) {
            std::memcpy(place, data.data(), data.size());
        }
    }
    void zeros(std::size_t count) {
        if (std::byte* place = reserve(count)) {
            std::memset(place, 0, count);
        }
    }
    /// BTH and the extended headers that its opcode asks for; header.pad_count is written as it is.
    void transport(const PacketHeader& header_fields) {
        header(kBthTable, &header_fields);
        for (const ExtendedHeader& extended : extended_headers()) {
            if ((opcode_info(header_fields.opcode).headers & extended.mask) != 0) {
                header(extended.table, &header_fields);
            }
        }
    }
    [[nodiscard]] std::span<std::byte> written(std::size_t from) const {
        return out_.subspan(from, at_ - from);
    }
    [[nodiscard]] std::size_t at() const { return at_; }
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    std::span<std::byte> out_;
    std::size_t at_ = 0;
    bool failed_ = false;
};

/// The lengths that follow from what a packet has.
struct Sizes {
    std::size_t pad = 0;
    std::size_t transport = 0;  // BTH to ICRC
    explicit Sizes(const Packet& packet) {
        if (packet.has_transport) {
            pad = -packet.payload.size() & 3U;
            transport =
                opcode_info(packet.transport.opcode).header_bytes + packet.payload.size() + pad + kIcrcBytes;
        }
    }
};

std::uint16_t ether_type_of(const Packet& packet) {
    if (packet.has_pfc) {
        return kEtherTypeMacControl;
    }
    switch (packet.network) {
        case Network::kIpv4:
            return kEtherTypeIpv4;
        case Network::kIpv6:
            return kEtherTypeIpv6;
        case Network::kGrh:
            return kEtherTypeRocev1;
        default:
            return packet.ethernet.ether_type;
    }
}

void write_ethernet(Writer& writer, const Packet& packet) {
    Ethernet ethernet = packet.ethernet;
    const std::size_t tags = std::min<std::size_t>(packet.vlan_count, packet.vlan.size());
    if (tags == 0) {
        ethernet.ether_type = ether_type_of(packet);
    }
    writer.header(kEthernetTable, &ethernet);
    for (std::size_t i = 0; i < tags; ++i) {
        VlanTag tag = packet.vlan[i];
        if (i + 1 == tags) {
            tag.ether_type = ether_type_of(packet);
        }
        writer.header(kVlanTable, &tag);
    }
}

void write_udp(Writer& writer, const Packet& packet, const Sizes& sizes) {
    Udp udp = packet.udp;
    udp.length = static_cast<std::uint16_t>(kUdpBytes + sizes.transport);
    udp.checksum = 0;
    writer.header(kUdpTable, &udp);
}

void write_ip(Writer& writer, const Packet& packet, const Sizes& sizes) {
    const std::size_t udp_bytes = kUdpBytes + sizes.transport;
    if (packet.network == Network::kIpv4) {
        Ipv4 ipv4 = packet.ipv4;
        ipv4.version = 4;
        ipv4.header_words = kIpv4Bytes / 4;
        ipv4.protocol = kProtocolUdp;
        ipv4.total_length = static_cast<std::uint16_t>(kIpv4Bytes + udp_bytes);
        ipv4.checksum = 0;
        const std::size_t at = writer.at();
        writer.header(kIpv4Table, &ipv4);
        if (!writer.failed()) {
            const std::span<std::byte> header = writer.written(at);
            store_be16(&header[kIpv4Checksum], checksum_fold(checksum_sum(header)));
        }
    } else {
        Grh ipv6 = packet.grh;
        ipv6.version = 6;
        ipv6.next_header = kProtocolUdp;
        ipv6.payload_length = static_cast<std::uint16_t>(udp_bytes);
        writer.header(kIpv6Table, &ipv6);
    }
    write_udp(writer, packet, sizes);
}

void write_grh(Writer& writer, const Packet& packet, std::size_t payload_length, std::uint8_t next_header) {
    Grh grh = packet.grh;
    grh.version = 6;
    grh.next_header = next_header;
    grh.payload_length = static_cast<std::uint16_t>(payload_length);
    writer.header(kGrhTable, &grh);
}

/// BTH to ICRC. `covered_from`: where the ICRC's scope begins.
void write_transport_part(Writer& writer, const Packet& packet, const Sizes& sizes, IcrcScope scope,
                          std::size_t covered_from) {
    PacketHeader header = packet.transport;
    header.pad_count = static_cast<std::uint8_t>(sizes.pad);
    writer.transport(header);
    writer.bytes(packet.payload);
    writer.zeros(sizes.pad);
    if (writer.failed()) {
        return;
    }
    const std::uint32_t icrc = invariant_crc(scope, writer.written(covered_from));
    if (std::byte* place = writer.reserve(kIcrcBytes)) {
        store_le32(place, icrc);
    }
}

/// After the ICRC, which does not see it. A sum of 0 is sent as ones (RFC 768): 0 says that there is none.
void fill_udp_checksum(const Writer& writer, const Packet& packet, std::size_t ip) {
    const bool is_ipv4 = packet.network == Network::kIpv4;
    const std::span<std::byte> bytes = writer.written(ip);
    const std::size_t udp = is_ipv4 ? kIpv4Bytes : kIpv6Bytes;
    const std::size_t addresses = is_ipv4 ? kIpv4Source : kIpv6Source;
    const std::uint16_t sum = udp_checksum(bytes.subspan(addresses, udp - addresses), bytes.subspan(udp));
    store_be16(&bytes[udp + kUdpChecksum], sum != 0 ? sum : std::uint16_t{0xffff});
}

void write_roce(Writer& writer, const Packet& packet) {
    const Sizes sizes(packet);
    const std::size_t l3 = writer.at();
    if (packet.network == Network::kGrh) {
        write_grh(writer, packet, sizes.transport, kNextHeaderIba);
        return write_transport_part(writer, packet, sizes, IcrcScope::kGrh, l3);
    }
    write_ip(writer, packet, sizes);
    const IcrcScope scope = packet.network == Network::kIpv4 ? IcrcScope::kIpv4 : IcrcScope::kIpv6;
    write_transport_part(writer, packet, sizes, scope, l3);
    if (!writer.failed() && packet.udp.checksum != 0) {
        fill_udp_checksum(writer, packet, l3);
    }
}

void write_pfc(Writer& writer, const Packet& packet) {
    writer.header(kPfcTable, &packet.pfc);
    if (writer.at() < kLeastEthernetBytes) {
        writer.zeros(kLeastEthernetBytes - writer.at());
    }
}

/// Returns whether the packet has a form on the InfiniBand link.
bool write_infiniband(Writer& writer, const Packet& packet) {
    const Sizes sizes(packet);
    Lrh lrh = packet.lrh;
    std::size_t raw_pad = 0;
    std::size_t length = kLrhBytes + (packet.has_transport ? sizes.transport : packet.payload.size());
    const bool is_global = packet.network == Network::kGrh;
    if (packet.has_transport) {
        lrh.lnh = is_global ? kLnhGlobal : kLnhTransport;
        length += is_global ? kGrhBytes : 0;
    } else {
        const bool is_ipv6 = packet.network == Network::kIpv6;
        lrh.lnh = is_ipv6 ? kLnhIpv6 : kLnhRaw;
        length += is_ipv6 ? kGrhBytes : kRawHeaderBytes;
        // IPv6 says itself where it ends; a raw header does not, so that its payload must be whole words.
        raw_pad = is_ipv6 ? -length & 3U : 0;
        length += raw_pad;
    }
    if (length % 4 != 0 || length / 4 > kLongestLrhWords) {
        return false;
    }
    lrh.length_words = static_cast<std::uint16_t>(length / 4);
    const std::size_t start = writer.at();
    writer.header(kLrhTable, &lrh);
    if (lrh.lnh == kLnhRaw) {
        writer.header(kRawHeaderTable, &packet.raw);
    } else if (lrh.lnh == kLnhIpv6) {
        write_grh(writer, packet, packet.payload.size(), packet.grh.next_header);
    } else if (lrh.lnh == kLnhGlobal) {
        write_grh(writer, packet, sizes.transport, kNextHeaderIba);
    }
    if (packet.has_transport) {
        const IcrcScope scope = is_global ? IcrcScope::kLrhAndGrh : IcrcScope::kLrh;
        write_transport_part(writer, packet, sizes, scope, start);
    } else {
        writer.bytes(packet.payload);
        writer.zeros(raw_pad);
    }
    if (!writer.failed()) {
        const std::uint16_t vcrc = variant_crc(writer.written(start));
        if (std::byte* place = writer.reserve(kVcrcBytes)) {
            store_be16(place, __builtin_bswap16(vcrc));
        }
    }
    return true;
}

}  // namespace

std::size_t build_packet(const Packet& packet, std::span<std::byte> out) {
    // The lengths of IPv4, IPv6, UDP and GRH have 16 bits.
    if (packet.payload.size() > 0xffff - kMaxHeaderBytes - kIpv6Bytes - kUdpBytes - kIcrcBytes) {
        return 0;
    }
    Writer writer(out);
    if (packet.link == LinkLayer::kInfiniBand) {
        if (!write_infiniband(writer, packet)) {
            return 0;
        }
    } else {
        write_ethernet(writer, packet);
        if (packet.has_pfc) {
            write_pfc(writer, packet);
        } else if (packet.has_transport && packet.network != Network::kNone &&
                   packet.network != Network::kRawHeader) {
            write_roce(writer, packet);
        } else {
            writer.bytes(packet.payload);
        }
    }
    return writer.failed() ? 0 : writer.at();
}

}  // namespace urnic::wire
