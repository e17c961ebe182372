#include "ulp/ipoib/codec/too_big.h"

#include <gtest/gtest.h>

#include "tests/unit/ulp/ipoib/packet_of.h"

namespace urnic::ipoib::test {
namespace {

Bytes ipv4(const std::string& flags, std::size_t data, const std::string& to = "0a090002",
           const std::string& protocol = "11") {
    Bytes packet = octets_of("45000000 1234" + flags + " 40" + protocol + "0000 0a090001 " + to);
    packet.resize(20 + data);
    put_u16(packet, 2, static_cast<std::uint16_t>(packet.size()));
    put_u16(packet, 10, static_cast<std::uint16_t>(~slow_sum(Bytes(packet.begin(), packet.begin() + 20))));
    for (std::size_t i = 0; i < data; ++i) {
        packet[20 + i] = static_cast<std::byte>(i * 7);
    }
    return packet;
}

TEST(IpoibTooBig, FragmentationNeeded) {
    const Bytes packet = ipv4("4000", 9000);
    const std::optional<std::vector<std::byte>> error = too_big_error(packet, 2044);
    ASSERT_TRUE(error);
    ASSERT_EQ(error->size(), 576U);
    EXPECT_EQ(Bytes(error->begin(), error->begin() + 10), octets_of("45000240 00000000 4001"));
    EXPECT_EQ(Bytes(error->begin() + 12, error->begin() + 20), octets_of("0a090002 0a090001"));
    EXPECT_EQ(slow_sum(Bytes(error->begin(), error->begin() + 20)), 0xFFFF);
    EXPECT_EQ(Bytes(error->begin() + 20, error->begin() + 22), octets_of("0304"));
    EXPECT_EQ(Bytes(error->begin() + 24, error->begin() + 28), octets_of("000007fc"));
    EXPECT_EQ(slow_sum(Bytes(error->begin() + 20, error->end())), 0xFFFF);
    EXPECT_TRUE(std::equal(error->begin() + 28, error->end(), packet.begin()));
}

TEST(IpoibTooBig, PacketTooBig) {
    Bytes packet = octets_of(
        "60000000 00001140 fe800000 00000000 000000ff fe000001 fe800000 00000000 000000ff fe000002");
    packet.resize(9000);
    const std::optional<std::vector<std::byte>> error = too_big_error(packet, 2044);
    ASSERT_TRUE(error);
    ASSERT_EQ(error->size(), 1280U);
    EXPECT_EQ(Bytes(error->begin(), error->begin() + 8), octets_of("60000000 04d83a40"));
    EXPECT_EQ(Bytes(error->begin() + 8, error->begin() + 40),
              octets_of("fe800000 00000000 000000ff fe000002 fe800000 00000000 000000ff fe000001"));
    EXPECT_EQ(Bytes(error->begin() + 40, error->begin() + 42), octets_of("0200"));
    EXPECT_EQ(Bytes(error->begin() + 44, error->begin() + 48), octets_of("000007fc"));
    Bytes covered(error->begin() + 8, error->begin() + 40);
    const Bytes length = octets_of("000004d8 0000003a");
    covered.insert(covered.end(), length.begin(), length.end());
    covered.insert(covered.end(), error->begin() + 40, error->end());
    EXPECT_EQ(slow_sum(covered), 0xFFFF);
}

TEST(IpoibTooBig, NoErrorAboutSomePackets) {
    EXPECT_FALSE(too_big_error(ipv4("4000", 9000, "efff0102"), 2044)) << "to a group";
    EXPECT_FALSE(too_big_error(ipv4("0001", 9000), 2044)) << "a later fragment";
    Bytes unreachable = ipv4("4000", 9000, "0a090002", "01");
    put_u8(unreachable, 20, 3);
    EXPECT_FALSE(too_big_error(unreachable, 2044)) << "an ICMP error";
    put_u8(unreachable, 20, 8);
    EXPECT_TRUE(too_big_error(unreachable, 2044)) << "an echo request";
    Bytes ipv6 = octets_of(
        "60000000 00003a40 fe800000 00000000 000000ff fe000001 fe800000 00000000 000000ff fe000002 0100");
    EXPECT_FALSE(too_big_error(ipv6, 2044)) << "an ICMPv6 error";
    put_u8(ipv6, 40, 128);
    EXPECT_TRUE(too_big_error(ipv6, 2044));
    put_u8(ipv6, 24, 0xFF);
    EXPECT_FALSE(too_big_error(ipv6, 2044));
    for (std::size_t octets = 0; octets < 20; ++octets) {
        EXPECT_FALSE(too_big_error(ConstOctets(ipv6).first(octets), 2044));
        EXPECT_FALSE(
            too_big_error(ipv4("4000", 0).size() > octets ? Bytes(octets, std::byte{0x45}) : Bytes(), 2044));
    }
}

TEST(IpoibTooBig, FragmentsMakeThePacket) {
    for (const std::size_t data : {1U, 2024U, 2025U, 9000U, 65515U}) {
        const Bytes packet = ipv4("0000", data);
        ASSERT_TRUE(can_fragment(packet));
        Bytes whole;
        for (const std::vector<std::byte>& fragment : fragment_ipv4(packet, 2044)) {
            ASSERT_LE(fragment.size(), 2044U);
            EXPECT_EQ(slow_sum(Bytes(fragment.begin(), fragment.begin() + 20)), 0xFFFF);
            EXPECT_EQ(u16_at(fragment, 2), fragment.size());
            EXPECT_EQ(u16_at(fragment, 4), 0x1234);
            EXPECT_EQ((u16_at(fragment, 6) & 0x1FFFU) * 8, whole.size());
            whole.insert(whole.end(), fragment.begin() + 20, fragment.end());
            EXPECT_EQ((u16_at(fragment, 6) & 0x2000U) != 0, whole.size() < data) << "more fragments";
        }
        EXPECT_EQ(whole, Bytes(packet.begin() + 20, packet.end()));
    }
    // A fragment of a packet: its offset counts on, and its last one is not the packet's.
    const Bytes middle = ipv4("2010", 4000);
    const std::vector<std::vector<std::byte>> pieces = fragment_ipv4(middle, 2044);
    ASSERT_EQ(pieces.size(), 2U);
    EXPECT_EQ(u16_at(pieces[0], 6), 0x2010);
    EXPECT_EQ(u16_at(pieces[1], 6), 0x2000 + 0x10 + 2024 / 8);
}

TEST(IpoibTooBig, WhatCannotBeFragmented) {
    EXPECT_FALSE(can_fragment(ipv4("4000", 9000))) << "DF";
    Bytes packet = ipv4("0000", 9000);
    put_u8(packet, 0, 0x46);
    EXPECT_FALSE(can_fragment(packet)) << "options";
    packet = ipv4("0000", 9000);
    packet.pop_back();
    EXPECT_FALSE(can_fragment(packet)) << "another length than it says";
    EXPECT_FALSE(can_fragment({}));
}

}  // namespace
}  // namespace urnic::ipoib::test
