#include "base/address_text.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace urnic {
namespace {

Gid gid_of(const char* text) {
    Gid gid{};
    EXPECT_EQ(inet_pton(AF_INET6, text, gid.data()), 1) << text;
    return gid;
}

TEST(AddressText, Macs) { EXPECT_EQ(mac_text({0x02, 0, 0xc6, 0x12, 0, 0x0a}), "02:00:c6:12:00:0a"); }

TEST(AddressText, GidsAsRfc5952HasThem) {
    for (const char* text : {"::", "::1", "1::", "fe80::1", "2001:db8::1:0:0:1", "2001:db8:0:1:1:1:1:1",
                             "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1", "::ffff:10.77.0.12", "2001:0:0:1::1",
                             "fe80::5054:ff:fe77:12", "::10.77.0.11", "fe80::2:c903:0:1234"}) {
        EXPECT_EQ(gid_text(gid_of(text)), text);
    }
}

TEST(AddressText, AddressesHaveNoPrefixOfMappedOnes) {
    EXPECT_EQ(address_text(gid_of("::ffff:198.18.0.1")), "198.18.0.1");
    EXPECT_EQ(address_text(gid_of("fd00::1")), "fd00::1");
}

TEST(AddressText, AllDigits) {
    EXPECT_EQ(full_gid_text(gid_of("fe80::ff:fe00:1")), "fe80:0000:0000:0000:0000:00ff:fe00:0001");
    const std::uint8_t bytes[] = {0, 0, 0, 0xff, 0xfe, 0, 0, 1};
    std::uint64_t guid = 0;
    std::memcpy(&guid, bytes, sizeof guid);
    EXPECT_EQ(guid_text(guid), "0000:00ff:fe00:0001");
}

TEST(AddressText, WhatIsWrittenIsReadAsTheSame) {
    std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
    for (int i = 0; i < 2000; ++i) {
        Gid gid{};
        for (std::size_t group = 0; group < 8; ++group) {
            if (random() % 3 == 0) {
                gid[2 * group] = static_cast<std::uint8_t>(random() % 2 == 0 ? random() : 0);
                gid[2 * group + 1] = static_cast<std::uint8_t>(random());
            }
        }
        EXPECT_EQ(gid_of(gid_text(gid).c_str()), gid);
        EXPECT_EQ(gid_of(full_gid_text(gid).c_str()), gid);
    }
}

}  // namespace
}  // namespace urnic
