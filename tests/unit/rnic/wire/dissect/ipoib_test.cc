// Where IPoIB is seen (RFC 4391, RFC 4755): UD and the first packet of an RC or UC SEND, on every link; and
// where bytes only look like it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/packet_build.h"

namespace urnic::wire {
namespace {

constexpr std::uint8_t kRcSendFirst = 0x00;
constexpr std::uint8_t kRcSendMiddle = 0x01;
constexpr std::uint8_t kRcSendLast = 0x02;
constexpr std::uint8_t kRcSendOnly = 0x04;
constexpr std::uint8_t kRcWriteOnly = 0x0a;
constexpr std::uint8_t kUcSendFirst = 0x20;
constexpr std::uint8_t kUcSendOnly = 0x24;
constexpr std::uint8_t kUdSendOnly = 0x64;

std::vector<std::byte> payload_of(const std::string& hex, std::size_t length_bytes) {
    std::vector<std::byte> bytes;
    for (std::size_t at = 0; at + 2 <= hex.size(); at += 2) {
        bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(at, 2), nullptr, 16)));
    }
    bytes.resize(length_bytes);
    return bytes;
}

/// An ICMP echo of `total_bytes` behind the encapsulation.
std::vector<std::byte> ipoib_ipv4(std::uint16_t total_bytes, std::size_t payload_bytes) {
    std::vector<std::byte> bytes =
        payload_of("0800000045000000000140004001000010010001100100a2", payload_bytes);
    bytes[6] = static_cast<std::byte>(total_bytes >> 8U);
    bytes[7] = static_cast<std::byte>(total_bytes);
    return bytes;
}
std::vector<std::byte> ipoib_ipv6(std::size_t payload_bytes) {
    std::vector<std::byte> bytes = payload_of("86dd000060000000000c3a40fe80", payload_bytes);
    return bytes;
}
std::vector<std::byte> ipoib_arp_request() { return payload_of("0806000000200800140400018000048a", 60); }

struct Link {
    const char* name;
    LinkLayer link;
    Network network;
};
constexpr Link kLinks[] = {{"RoCEv2 IPv4", LinkLayer::kEthernet, Network::kIpv4},
                           {"RoCEv2 IPv6", LinkLayer::kEthernet, Network::kIpv6},
                           {"RoCEv1", LinkLayer::kEthernet, Network::kGrh},
                           {"native", LinkLayer::kInfiniBand, Network::kNone},
                           {"native GRH", LinkLayer::kInfiniBand, Network::kGrh}};

/// The names of the payload's layers, as a reader of a capture sees them.
std::string layers_of(const Link& link, std::uint8_t opcode, const std::vector<std::byte>& payload,
                      std::size_t captured_bytes_less = 0) {
    Packet packet;
    packet.link = link.link;
    packet.network = link.network;
    packet.has_transport = true;
    packet.transport.opcode = opcode;
    packet.transport.dest_qp = 0x123456;
    packet.udp.dst_port = kRocev2UdpPort;
    packet.payload = payload;
    std::vector<std::byte> wire(kMaxPacketBytes);
    wire.resize(build_packet(packet, wire));
    Packet parsed;
    parse_packet(link.link, std::span(wire).first(wire.size() - captured_bytes_less), wire.size(), parsed);
    std::string names;
    for (const Layer& layer : describe_payload(parsed)) {
        names += (names.empty() ? "" : ", ") + layer.name;
    }
    return names;
}

TEST(Ipoib, IsSeenInDatagramsOfEveryLink) {
    for (const Link& link : kLinks) {
        SCOPED_TRACE(link.name);
        EXPECT_EQ(layers_of(link, kUdSendOnly, ipoib_ipv4(84, 88)), "IPoIB, IPv4");
        EXPECT_EQ(layers_of(link, kUdSendOnly, ipoib_ipv6(56)), "IPoIB, IPv6");
        EXPECT_EQ(layers_of(link, kUdSendOnly, ipoib_arp_request()), "IPoIB, ARP");
    }
}

TEST(Ipoib, IsSeenInConnectedMode) {
    for (const Link& link : kLinks) {
        SCOPED_TRACE(link.name);
        for (const std::uint8_t only : {kRcSendOnly, kUcSendOnly}) {
            EXPECT_EQ(layers_of(link, only, ipoib_ipv4(84, 88)), "IPoIB, IPv4");
            EXPECT_EQ(layers_of(link, only, ipoib_ipv6(56)), "IPoIB, IPv6");
        }
        for (const std::uint8_t first : {kRcSendFirst, kUcSendFirst}) {
            EXPECT_EQ(layers_of(link, first, ipoib_ipv4(65520, 1024)), "IPoIB, IPv4");
            // Whole in its first packet it would have no further ones.
            EXPECT_EQ(layers_of(link, first, ipoib_ipv4(1020, 1024)), "");
        }
    }
}

TEST(Ipoib, IsSeenWhenTheCaptureCutTheEndOff) {
    EXPECT_EQ(layers_of(kLinks[0], kRcSendOnly, ipoib_ipv4(1000, 1004), 900), "IPoIB, IPv4");
    EXPECT_EQ(layers_of(kLinks[0], kUdSendOnly, ipoib_ipv4(1000, 1004), 900), "IPoIB, IPv4");
}

TEST(Ipoib, OtherPayloadsAreLeftAlone) {
    for (const Link& link : kLinks) {
        SCOPED_TRACE(link.name);
        // Behind the message's first packet, and in what is no SEND, there is no encapsulation.
        for (const std::uint8_t opcode : {kRcSendMiddle, kRcSendLast, kRcWriteOnly}) {
            EXPECT_EQ(layers_of(link, opcode, ipoib_ipv4(84, 88)), "");
        }
        // A program's counter of 8, little-endian.
        EXPECT_EQ(layers_of(link, kRcSendOnly, payload_of("0800000001000000", 64)), "");
        EXPECT_EQ(layers_of(link, kRcSendOnly, payload_of("08000000", 4)), "");
        EXPECT_EQ(layers_of(link, kRcSendOnly, ipoib_ipv4(85, 88)), "");  // longer than the message
        EXPECT_EQ(layers_of(link, kRcSendOnly, ipoib_ipv4(19, 88)), "");  // shorter than its header
        EXPECT_EQ(layers_of(link, kRcSendOnly, payload_of("86dd0000500000000008", 64)), "");
        EXPECT_EQ(layers_of(link, kRcSendOnly, payload_of("0806000000010800060400", 64)), "");  // Ethernet's
        EXPECT_EQ(layers_of(link, kRcSendOnly, payload_of("", 0)), "");
    }
    EXPECT_EQ(layers_of(kLinks[0], kUdSendOnly, payload_of("0800000001000000", 64)), "");
}

}  // namespace
}  // namespace urnic::wire
