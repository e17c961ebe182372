// Packets of TCP and UDP from their fields, octet by octet, with checksums made the slow way.
#pragma once

#include <random>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/offload.h"
#include "ulp/ipoib/codec/transport.h"

namespace urnic::ipoib::test {

/// What two packets of one connection may have different, and what tells connections apart.
struct Fields {
    bool is_ipv6 = false;
    bool is_udp = false;
    std::uint8_t connection = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hops = 64;
    std::uint16_t fragment = 0x4000;
    std::uint16_t identification = 0;
    std::uint32_t sequence = 0;
    std::uint32_t acknowledgement = 0;
    std::uint8_t flags = 0x10;
    std::uint16_t window = 0x2000;
    Bytes options;
};

inline std::uint16_t slow_sum(const Bytes& octets) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < octets.size(); ++i) {
        sum += std::to_integer<std::uint32_t>(octets[i]) << (i % 2 == 0 ? 8U : 0U);
        sum = (sum & 0xFFFFU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(sum);
}

class PacketWriter {
  public:
    PacketWriter& u8(std::size_t value) {
        octets_.push_back(static_cast<std::byte>(value));
        return *this;
    }
    PacketWriter& u16(std::size_t value) { return u8(value >> 8U).u8(value); }
    PacketWriter& u32(std::size_t value) { return u16(value >> 16U).u16(value); }
    PacketWriter& all(const Bytes& more) {
        octets_.insert(octets_.end(), more.begin(), more.end());
        return *this;
    }
    [[nodiscard]] const Bytes& octets() const { return octets_; }

  private:
    Bytes octets_;
};

inline Bytes addresses_of(const Fields& fields) {
    if (fields.is_ipv6) {
        Bytes both;
        for (const Gid& end : {gid_of("fd00::a"), gid_of("fd00::b")}) {
            both.insert(both.end(), end.begin(), end.end());
        }
        return both;
    }
    return octets_of("0a090001 0a090002");
}

/// An IP packet. `is_partial`: its checksum field has the sum of the pseudo-header alone.
inline Bytes packet_of(const Fields& fields, const Bytes& data, bool is_partial = false) {
    const std::size_t header = fields.is_udp ? 8 : 20 + fields.options.size();
    const std::size_t octets = header + data.size();
    const std::uint8_t protocol = fields.is_udp ? 17 : 6;
    const Bytes addresses = addresses_of(fields);
    PacketWriter transport;
    transport.u16(5000 + fields.connection).u16(50000);
    if (fields.is_udp) {
        transport.u16(octets).u16(0);
    } else {
        transport.u32(fields.sequence).u32(fields.acknowledgement).u8((header / 4) << 4U).u8(fields.flags);
        transport.u16(fields.window).u16(0).u16(0).all(fields.options);
    }
    transport.all(data);
    const Bytes pseudo = PacketWriter().all(addresses).u32(octets).u32(protocol).octets();
    std::uint16_t sum = slow_sum(pseudo);
    if (!is_partial) {
        sum = static_cast<std::uint16_t>(
            ~slow_sum(PacketWriter().all(pseudo).all(transport.octets()).octets()));
        sum = fields.is_udp && sum == 0 ? 0xFFFF : sum;
    }
    Bytes segment = transport.octets();
    put_u16(segment, fields.is_udp ? 6 : 16, sum);
    PacketWriter ip;
    if (fields.is_ipv6) {
        ip.u16(0x6000U | fields.traffic_class << 4U).u16(0x1234).u16(octets).u8(protocol).u8(fields.hops);
        return ip.all(addresses).all(segment).octets();
    }
    ip.u8(0x45).u8(fields.traffic_class).u16(20 + octets).u16(fields.identification).u16(fields.fragment);
    Bytes head = ip.u8(fields.hops).u8(protocol).u16(0).all(addresses).octets();
    put_u16(head, 10, static_cast<std::uint16_t>(~slow_sum(head)));
    return PacketWriter().all(head).all(segment).octets();
}

/// What the kernel says of packet_of(fields, data, true), with an Ethernet header in front.
inline Offload offload_of(const Fields& fields, std::size_t segment_octets) {
    const std::size_t ip = 14 + (fields.is_ipv6 ? 40 : 20);
    Offload offload;
    offload.needs_checksum = true;
    offload.segmentation = fields.is_udp    ? Segmentation::kUdp
                           : fields.is_ipv6 ? Segmentation::kTcpIpv6
                                            : Segmentation::kTcpIpv4;
    offload.header_octets = static_cast<std::uint16_t>(ip + (fields.is_udp ? 8 : 20 + fields.options.size()));
    offload.segment_octets = static_cast<std::uint16_t>(segment_octets);
    offload.checksum_start = static_cast<std::uint16_t>(ip);
    offload.checksum_offset = fields.is_udp ? 6 : 16;
    return offload;
}

/// The packets that segmentation has to make.
inline std::vector<Bytes> packets_of(const Fields& whole, const Bytes& data, std::size_t segment_octets) {
    std::vector<Bytes> packets;
    for (std::size_t at = 0; at < data.size(); at += segment_octets) {
        const std::size_t end = std::min(at + segment_octets, data.size());
        Fields fields = whole;
        fields.sequence += static_cast<std::uint32_t>(at);
        fields.identification = static_cast<std::uint16_t>(whole.identification + packets.size());
        fields.flags &= static_cast<std::uint8_t>(end == data.size() ? 0xFF : ~0x09);
        fields.flags &= static_cast<std::uint8_t>(at == 0 ? 0xFF : ~0x80);
        packets.push_back(packet_of(fields, Bytes(data.begin() + static_cast<std::ptrdiff_t>(at),
                                                  data.begin() + static_cast<std::ptrdiff_t>(end))));
    }
    return packets;
}

class Random {
  public:
    explicit Random(std::uint32_t seed) : engine_(seed) {}
    /// From 0 to `most`.
    std::size_t up_to(std::size_t most) {
        return std::uniform_int_distribution<std::size_t>(0, most)(engine_);
    }
    bool is_one_in(std::size_t n) { return up_to(n - 1) == 0; }
    Bytes octets(std::size_t count) {
        Bytes made(count);
        for (std::byte& octet : made) {
            octet = static_cast<std::byte>(up_to(255));
        }
        return made;
    }

  private:
    std::mt19937 engine_;
};

/// Another one each time; URNIC_TEST_SEED repeats one.
inline std::uint32_t seed_of_test() {
    const char* wanted = std::getenv("URNIC_TEST_SEED");
    return wanted != nullptr ? static_cast<std::uint32_t>(std::stoul(wanted)) : std::random_device()();
}

}  // namespace urnic::ipoib::test
