// Which entry of a P_Key table is meant by a packet's P_Key.
#include <gtest/gtest.h>

#include "rnic/device/gsi.h"
#include "rnic/device/pkey_table.h"

namespace urnic {
namespace {

using Index = std::optional<std::uint16_t>;

TEST(PkeyTable, BeginsWithTheDefaultPartition) {
    EXPECT_TRUE(kDefaultPkeys.has(0));
    EXPECT_EQ(kDefaultPkeys.entries[0], 0xffff);
    for (std::uint32_t i = 1; i < PkeyTable::kEntries; ++i) {
        EXPECT_FALSE(kDefaultPkeys.has(i)) << i;
    }
    EXPECT_FALSE(kDefaultPkeys.has(PkeyTable::kEntries));
}

TEST(PkeyTable, FindsThePartitionThroughWhichBothMayTalk) {
    PkeyTable table{{0x7fff, 0x8001, 0x0002, 0x8002, 0x0003}};
    table.entries.back() = 0x8005;
    EXPECT_EQ(table.find(0xffff), Index(0)) << "a full member to a limited one";
    EXPECT_EQ(table.find(0x7fff), std::nullopt) << "both limited";
    EXPECT_EQ(table.find(0x0001), Index(1));
    EXPECT_EQ(table.find(0x8001), Index(1));
    EXPECT_EQ(table.find(0x8002), Index(3)) << "the full membership first";
    EXPECT_EQ(table.find(0x0002), Index(3));
    EXPECT_EQ(table.find(0x8003), Index(4));
    EXPECT_EQ(table.find(0x0003), std::nullopt);
    EXPECT_EQ(table.find(0x0005), Index(127));
    EXPECT_EQ(table.find(0x8004), std::nullopt);
    EXPECT_EQ(table.match(0xffff), Index(0x7fff));
    EXPECT_EQ(table.match(0x8004), std::nullopt);
}

TEST(PkeyTable, FreeEntriesMatchNothing) {
    EXPECT_EQ(kDefaultPkeys.find(0x0000), std::nullopt);
    EXPECT_EQ(kDefaultPkeys.find(0x8000), std::nullopt);
}

TEST(PkeyTable, MadsComeThroughEveryEntry) {
    std::array<std::byte, kMadBytes> bytes{};
    wire::PacketView packet;
    packet.header.opcode = std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly};
    packet.header.deth = {kGsiQkey, kGsiQp};
    packet.payload = bytes;
    const PkeyTable table{{0x8007, 0x7abc}};
    Counters counters;
    ReceivedMad mad;
    packet.header.pkey = 0x0007;
    EXPECT_TRUE(take_mad(packet, table, counters, mad));
    EXPECT_EQ(mad.pkey, 0x8007) << "ours, which the answer carries";
    packet.header.pkey = 0xfabc;
    EXPECT_TRUE(take_mad(packet, table, counters, mad));
    EXPECT_EQ(mad.pkey, 0x7abc);
    EXPECT_EQ(counters.drop_pkey.value(), 0U);
    for (const std::uint16_t pkey : {0x7abc, 0xffff, 0x8000, 0}) {
        packet.header.pkey = pkey;
        EXPECT_FALSE(take_mad(packet, table, counters, mad)) << pkey;
    }
    EXPECT_EQ(counters.drop_pkey.value(), 4U);
}

}  // namespace
}  // namespace urnic
