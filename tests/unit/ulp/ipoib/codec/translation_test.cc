#include "ulp/ipoib/codec/translation.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/multicast.h"

namespace urnic::ipoib::test {
namespace {

// Node A and node B of a link; their MACs at the TAP devices.
const Mac kMacA = mac_of("020000000001");
const Mac kMacB = mac_of("020000000002");
const LinkAddress kA{0, 0x11, gid_of("fe80::ff:fe00:1")};
const LinkAddress kB{0, 0x23, gid_of("fe80::ff:fe00:2")};

class TwoNodes : public AddressMap {
  public:
    bool to_link(const Mac& mac, LinkAddress& out) override {
        out = mac == kMacA ? kA : kB;
        return mac == kMacA || mac == kMacB;
    }
    bool to_mac(const LinkAddress& address, Mac& out) override {
        out = address == kA ? kMacA : kMacB;
        return address.is_unicast() && (address == kA || address == kB);
    }
};

const Bytes kArpRequest = octets_of(
    "0020 0800 1404 0001 00000011 fe800000 00000000 000000ff fe000001 0a090001 "
    "00000000 00000000 00000000 00000000 00000000 0a090002");
const Bytes kArpReply = octets_of(
    "0020 0800 1404 0002 00000023 fe800000 00000000 000000ff fe000002 0a090002 "
    "00000011 fe800000 00000000 000000ff fe000001 0a090001");
const Bytes kEthernetRequest = octets_of("0001 0800 0604 0001 020000000001 0a090001 000000000000 0a090002");
const Bytes kEthernetReply = octets_of("0001 0800 0604 0002 020000000002 0a090002 020000000001 0a090001");
const Bytes kSolicitation = octets_of(
    "60000000 00303aff fe800000 00000000 000000ff fe000001 ff020000 00000000 00000001 ff000002 "
    "870080f3 00000000 fe800000 00000000 000000ff fe000002 "
    "01030000 00000011 fe800000 00000000 000000ff fe000001");

Bytes arp_link(const Bytes& arp) {
    TwoNodes map;
    Bytes out(kIpoibArpOctets);
    EXPECT_EQ(arp_to_link(arp, map, out), Translation::kDone);
    return out;
}
Bytes arp_ethernet(const Bytes& arp) {
    TwoNodes map;
    Bytes out(kEthernetArpOctets);
    EXPECT_EQ(arp_to_ethernet(arp, map, out), Translation::kDone);
    return out;
}

TEST(IpoibArp, RequestAndReply) {
    EXPECT_EQ(arp_link(kEthernetRequest), kArpRequest);
    EXPECT_EQ(arp_link(kEthernetReply), kArpReply);
    EXPECT_EQ(arp_ethernet(kArpRequest), kEthernetRequest);
    EXPECT_EQ(arp_ethernet(kArpReply), kEthernetReply);
}

TEST(IpoibArp, PaddingOfAnEthernetFrameIsLeftOut) {
    Bytes padded = kEthernetRequest;
    padded.resize(46);
    EXPECT_EQ(arp_link(padded), kArpRequest);
}

TEST(IpoibArp, ForgedSenders) {
    TwoNodes map;
    Bytes out(kEthernetArpOctets);
    // A multicast GID; QP 0, 1 and 0xFFFFFF; the zero GID.
    for (const char* sender :
         {"00000011 ff120000 00000000 000000ff fe000001", "00000000 fe800000 00000000 000000ff fe000001",
          "00000001 fe800000 00000000 000000ff fe000001", "00ffffff fe800000 00000000 000000ff fe000001",
          "00000011 00000000 00000000 00000000 00000000"}) {
        Bytes arp = kArpRequest;
        const Bytes address = octets_of(sender);
        std::copy(address.begin(), address.end(), arp.begin() + 8);
        EXPECT_EQ(arp_to_ethernet(arp, map, out), Translation::kMalformed) << sender;
    }
}

TEST(IpoibArp, EveryWrongLengthAndField) {
    TwoNodes map;
    Bytes out(kIpoibArpOctets);
    for (std::size_t octets = 0; octets < kEthernetArpOctets; ++octets) {
        EXPECT_EQ(arp_to_link(ConstOctets(kEthernetRequest).first(octets), map, out),
                  Translation::kMalformed);
    }
    for (std::size_t octets = 0; octets < kIpoibArpOctets; ++octets) {
        EXPECT_EQ(arp_to_ethernet(ConstOctets(kArpRequest).first(octets), map, out), Translation::kMalformed);
    }
    for (std::size_t at = 0; at < 8; ++at) {
        Bytes arp = kArpRequest;
        arp[at] ^= std::byte{0x40};
        EXPECT_EQ(arp_to_ethernet(arp, map, out), Translation::kMalformed) << at;
    }
    EXPECT_EQ(arp_to_ethernet(kArpRequest, map, Octets(out).first(27)), Translation::kNoRoom);
    EXPECT_EQ(arp_to_link(kEthernetRequest, map, Octets(out).first(55)), Translation::kNoRoom);
}

TEST(IpoibArp, SenderThatNobodyKnows) {
    TwoNodes map;
    Bytes out(kIpoibArpOctets);
    Bytes arp = kEthernetRequest;
    arp[13] = std::byte{9};
    EXPECT_EQ(arp_to_link(arp, map, out), Translation::kUnknown);
}

/// The solicitation with an option of Ethernet, and its checksum.
Bytes ethernet_solicitation() {
    TwoNodes map;
    Bytes out(kSolicitation.size());
    std::size_t octets = 0;
    EXPECT_EQ(discovery_to_ethernet(kSolicitation, map, out, octets), Translation::kDone);
    out.resize(octets);
    return out;
}

TEST(IpoibDiscovery, SolicitationBothWays) {
    const Bytes ethernet = ethernet_solicitation();
    EXPECT_EQ(ethernet.size(), 72U);
    EXPECT_EQ(u16_at(ethernet, 4), 32U);
    EXPECT_EQ(Bytes(ethernet.begin() + 64, ethernet.end()), octets_of("0101 020000000001"));
    // A checksum over pseudo-header and message, counted here by hand: sum of all words is 0xFFFF.
    const ConstOctets message = ConstOctets(ethernet).subspan(40);
    EXPECT_EQ(fold(sum_words(message, sum_words(ConstOctets(ethernet).subspan(8, 32), message.size() + 58))),
              0xFFFFU);
    TwoNodes map;
    Bytes out(200);
    std::size_t octets = 0;
    ASSERT_EQ(discovery_to_link(ethernet, map, out, octets), Translation::kDone);
    out.resize(octets);
    EXPECT_EQ(out, kSolicitation) << "the published checksum 0x80f3 comes back";
}

TEST(IpoibDiscovery, EveryShorterPacketIsMalformed) {
    TwoNodes map;
    Bytes out(200);
    std::size_t octets = 0;
    for (std::size_t length = kIpv6HeaderOctets + 8; length < kSolicitation.size(); ++length) {
        EXPECT_EQ(discovery_to_ethernet(ConstOctets(kSolicitation).first(length), map, out, octets),
                  Translation::kMalformed);
    }
}

/// With its payload length and checksum made right again.
Bytes repaired(Bytes packet) {
    put_u16(packet, 4, static_cast<std::uint16_t>(packet.size() - 40));
    put_u16(packet, 42, 0);
    const ConstOctets message = ConstOctets(packet).subspan(40);
    const std::uint64_t pseudo = sum_words(ConstOctets(packet).subspan(8, 32), message.size() + 58);
    put_u16(packet, 42, static_cast<std::uint16_t>(~fold(sum_words(message, pseudo))));
    return packet;
}

TEST(IpoibDiscovery, OptionsThatLie) {
    TwoNodes map;
    Bytes out(200);
    std::size_t octets = 0;
    for (const auto& [length, expected] : std::map<int, Translation>{{0, Translation::kMalformed},
                                                                     {1, Translation::kMalformed},
                                                                     {2, Translation::kMalformed},
                                                                     {3, Translation::kDone},
                                                                     {4, Translation::kMalformed},
                                                                     {255, Translation::kMalformed}}) {
        Bytes packet = kSolicitation;
        packet[65] = static_cast<std::byte>(length);
        EXPECT_EQ(discovery_to_ethernet(repaired(packet), map, out, octets), expected) << length;
    }
    Bytes wrong_checksum = kSolicitation;
    wrong_checksum[43] ^= std::byte{1};
    EXPECT_EQ(discovery_to_ethernet(wrong_checksum, map, out, octets), Translation::kMalformed);
    EXPECT_EQ(discovery_to_link(ethernet_solicitation(), map, Octets(out).first(87), octets),
              Translation::kNoRoom);
}

TEST(IpoibDiscovery, OtherOptionsAreCopied) {
    // A router advertisement with an MTU option between two addresses.
    Bytes packet = octets_of(
        "60000000 00000000 fe800000 00000000 000000ff fe000001 ff020000 00000000 00000000 00000001 "
        "86000000 40000708 00000000 00000000 "
        "0101 020000000001 0501 0000 000007fc 0201 020000000002");
    packet[6] = std::byte{58};
    packet[7] = std::byte{255};
    packet = repaired(packet);
    TwoNodes map;
    Bytes link(200);
    std::size_t octets = 0;
    ASSERT_EQ(discovery_to_link(packet, map, link, octets), Translation::kDone);
    link.resize(octets);
    EXPECT_EQ(link.size(), packet.size() + 32);
    EXPECT_EQ(Bytes(link.begin() + 80, link.begin() + 88), octets_of("0501 0000 000007fc"));
    Bytes back(200);
    ASSERT_EQ(discovery_to_ethernet(link, map, back, octets), Translation::kDone);
    back.resize(octets);
    EXPECT_EQ(back, packet);
}

TEST(IpoibDiscovery, OnlyItsFiveTypes) {
    EXPECT_TRUE(is_neighbour_discovery(kSolicitation));
    for (const int type : {0, 128, 132, 138, 255}) {
        Bytes packet = kSolicitation;
        packet[40] = static_cast<std::byte>(type);
        EXPECT_FALSE(is_neighbour_discovery(packet)) << type;
    }
    EXPECT_FALSE(is_neighbour_discovery(ConstOctets(kSolicitation).first(47)));
}

TEST(IpoibMulticast, GidsOfTheRfc) {
    const LinkScope link;
    EXPECT_EQ(broadcast_gid(link), gid_of("ff12:401b:ffff::ffff:ffff"));
    EXPECT_EQ(ipv4_group_gid(link, 0xFFFFFFFF), broadcast_gid(link));
    EXPECT_EQ(ipv4_group_gid(link, 0xE0000001), gid_of("ff12:401b:ffff::1"));
    EXPECT_EQ(ipv4_group_gid(link, 0xEFFF0102), gid_of("ff12:401b:ffff::fff:102"));
    EXPECT_EQ(ipv4_group_gid({0x8000, 2}, 0xE0000002), gid_of("ff12:401b:8000::2"));
    EXPECT_EQ(ipv6_group_gid({0x8000, 2}, gid_of("ff02::2")), gid_of("ff12:601b:8000::2"));
    EXPECT_EQ(ipv6_group_gid(link, gid_of("ff02::1:ff00:1")), gid_of("ff12:601b:ffff::1:ff00:1"));
    EXPECT_EQ(ipv6_group_gid(link, gid_of("ff05::1:3")), gid_of("ff12:601b:ffff::1:3"));
    EXPECT_EQ(broadcast_gid({0x0001, 5}), gid_of("ff15:401b:8001::ffff:ffff"))
        << "bit 15 is set for a limited member, too";
}

TEST(IpoibFrame, SourceFromTheRoomOfAGrh) {
    Bytes grh = octets_of(
        "60000000 00301bff fe800000 00000000 000000ff fe000001 fe800000 00000000 000000ff fe000002");
    EXPECT_EQ(source_gid(grh, kB.gid), kA.gid);
    EXPECT_EQ(source_gid(grh, kA.gid), std::nullopt) << "a header to somebody else";
    // IPv4 in the last 20 octets, with its checksum.
    const Bytes ipv4 = octets_of("4500003c 00004000 40110000 0a090001 0a090002");
    Bytes header = ipv4;
    put_u16(header, 10, static_cast<std::uint16_t>(~fold(sum_words(ipv4))));
    std::fill(grh.begin(), grh.end(), std::byte{0x66});
    std::copy(header.begin(), header.end(), grh.begin() + 20);
    EXPECT_EQ(source_gid(grh, gid_of("::ffff:10.9.0.2")), gid_of("::ffff:10.9.0.1"));
    grh[30] ^= std::byte{1};
    EXPECT_EQ(source_gid(grh, gid_of("::ffff:10.9.0.2")), std::nullopt);
}

}  // namespace
}  // namespace urnic::ipoib::test
