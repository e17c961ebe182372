#include "ulp/ipoib/tap/memberships.h"

#include <gtest/gtest.h>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "ulp/ipoib/codec/announcement.h"
#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/codec/translation.h"

namespace urnic::ipoib::test {
namespace {

// As Linux prints them on a little-endian machine.
constexpr const char* kIgmp =
    "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    "1\tlo        :     1      V3\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "7\tib0       :     2      V3\n"
    "\t\t\t\t0201FFEF     1 0:00000000\t\t0\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "8\tib01      :     1      V3\n"
    "\t\t\t\tFB0000E0     1 0:00000000\t\t0\n";
constexpr const char* kIgmp6 =
    "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
    "7    ib0             ff0200000000000000000001ff000001     1 00000004 0\n"
    "7    ib0             ff020000000000000000000000000001     1 0000000C 0\n"
    "8    ib01            ff020000000000000000000000000002     1 0000000C 0\n";

TEST(IpoibMemberships, OfOneInterface) {
    EXPECT_EQ(parse_igmp(kIgmp, "ib0"), (std::vector<std::uint32_t>{0xEFFF0102, 0xE0000001}));
    EXPECT_EQ(parse_igmp(kIgmp, "ib01"), (std::vector<std::uint32_t>{0xE00000FB}));
    EXPECT_TRUE(parse_igmp(kIgmp, "ib").empty());
    EXPECT_EQ(parse_igmp6(kIgmp6, "ib0"),
              (std::vector<Ipv6Address>{gid_of("ff02::1:ff00:1"), gid_of("ff02::1")}));
    EXPECT_TRUE(parse_igmp6(kIgmp6, "ib").empty());
}

TEST(IpoibMemberships, LinesThatAreNone) {
    EXPECT_TRUE(parse_igmp("7\tib0 : 1 V3\n\t\t\t\tXYZ 1\n\t\t\t\t\n", "ib0").empty());
    EXPECT_TRUE(
        parse_igmp6("7 ib0 ff02 1\n7 ib0\n\n7 ib0 zz020000000000000000000000000001 1\n", "ib0").empty());
}

TEST(IpoibAnnouncement, FramesAreWellFormed) {
    const Mac own = mac_of("024800000001");
    EXPECT_EQ(gratuitous_arp(own, 0x0A090001), octets_of("ffffffffffff 024800000001 0806 0001 0800 0604 0001 "
                                                         "024800000001 0a090001 000000000000 0a090001"));
    const Bytes frame = unsolicited_advertisement(own, gid_of("fe80::1"));
    EXPECT_EQ(Bytes(frame.begin(), frame.begin() + 14), octets_of("333300000001 024800000001 86dd"));
    const ConstOctets packet = ConstOctets(frame).subspan(kEthernetHeaderOctets);
    EXPECT_TRUE(is_neighbour_discovery(packet));
    EXPECT_EQ(u8_at(packet, 7), 255U) << "RFC 4861, 7.1.2: a lesser hop limit is not valid";
    const ConstOctets message = packet.subspan(kIpv6HeaderOctets);
    EXPECT_EQ(fold(sum_words(message, sum_words(packet.subspan(8, 32), message.size() + kIcmpv6))), 0xFFFFU);
    EXPECT_EQ(u32_at(message, 4), 0x20000000U);
}

TEST(IpoibAnnouncement, ReportsOfMembership) {
    EXPECT_TRUE(is_membership_report(
        kTypeIpv4, octets_of("46c00028 00004000 01020000 00000000 e0000016 94040000 22000000")));
    EXPECT_FALSE(is_membership_report(kTypeIpv4, octets_of("45000028 00004000 01060000 00000000 e0000016")));
    Bytes mld(kIpv6HeaderOctets + 16);
    put_u8(mld, kIpv6HeaderOctets, kIcmpv6);
    put_u8(mld, kIpv6HeaderOctets + 8, 143);
    EXPECT_TRUE(is_membership_report(kTypeIpv6, mld));
    put_u8(mld, kIpv6HeaderOctets + 8, 135);
    EXPECT_FALSE(is_membership_report(kTypeIpv6, mld));
    EXPECT_FALSE(is_membership_report(kTypeIpv6, ConstOctets(mld).first(48)));
}

}  // namespace
}  // namespace urnic::ipoib::test
