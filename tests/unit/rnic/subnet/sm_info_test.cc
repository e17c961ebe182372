// SMInfo of the built-in subnet manager: octets, states, and what is not answered.
#include <gtest/gtest.h>

#include "tests/unit/rnic/subnet/administrator_fixture.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::subnet {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the fixture's words

class SmInfoTest : public AdministratorTest {
  protected:
    static MadPacket smp(const MadBytes& mad) {
        MadPacket packet = packet_of(mad, 1);
        packet.slid = kAsker;
        return packet;
    }
    static MadPacket query(std::uint8_t method = wire::kMadGet, std::uint32_t modifier = 0) {
        return smp(lid_routed(method, mad::kSmInfo, modifier));
    }
    mad::SmInfo info_of(const MadPacket& packet) {
        return take<mad::SmInfo>(ask(packet).mad, mad::kSmInfoTable);
    }
    bool is_answered(const MadPacket& packet) {
        sent_.clear();
        const bool is_taken = administrator_->handle(packet, now_);
        EXPECT_EQ(sent_.size(), is_taken ? 1U : 0U);
        return is_taken;
    }
};

TEST_F(SmInfoTest, OctetByOctet) {
    MadPacket packet = query();
    // As sminfo asks: what it says of itself is not given back.
    test::put(packet.mad, 64, {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1, 1, 1, 0xf2, 0xaa});
    MadBytes expected = lid_routed(wire::kMadGetResponse, mad::kSmInfo);
    test::put(expected, 64, {0, 0, 0, 0, 0, 0, 0, 1});      // the port's GUID
    test::put(expected, 64 + 8, {0, 0, 0, 0, 0, 0, 0, 1});  // SM_Key, opensm's default
    test::put(expected, 64 + 20, {0x03});                   // priority 0, Master
    const MadPacket answer = ask(packet);
    EXPECT_EQ(answer.mad, expected);
    EXPECT_EQ(answer.dlid, kAsker);
    EXPECT_EQ(answer.slid, 1);
    EXPECT_EQ(answer.src_qp, 0U);
    EXPECT_EQ(answer.dest_qp, 0U);
    EXPECT_EQ(answer.qkey, 0U);
}

TEST_F(SmInfoTest, ItsActCountGrows) {
    const std::uint32_t first = info_of(query()).act_count;
    EXPECT_EQ(info_of(query()).act_count, first + 1);
    ask(request(wire::kMadGet, mad::kClassPortInfo, 0));
    EXPECT_EQ(info_of(query()).act_count, first + 3);
}

TEST_F(SmInfoTest, ByADirectedRoute) {
    const MadPacket answer = ask(smp(directed(wire::kMadGet, mad::kSmInfo, 0, {1, 2})));
    MadBytes bytes = answer.mad;
    EXPECT_TRUE(MadRef(bytes).is_returning());
    EXPECT_EQ(MadRef(bytes).status(), kStatusGood);
    EXPECT_EQ(take<mad::SmInfo>(bytes, mad::kSmInfoTable).sm_state, 3);
}

/// HANDOVER, ACKNOWLEDGE, DISABLE, STANDBY, DISCOVER: nothing for a Master that stays it (IBA 14.4.1).
TEST_F(SmInfoTest, NobodyTakesOver) {
    for (std::uint32_t modifier = 0; modifier <= 6; ++modifier) {
        MadPacket packet = query(wire::kMadSet, modifier);
        test::put(packet.mad, 64 + 20, {0xf3});
        MadPacket answer = ask(packet);
        EXPECT_EQ(MadRef(answer.mad).status(), kStatusBadValue) << modifier;
        EXPECT_EQ(MadRef(answer.mad).method(), wire::kMadGetResponse);
        const auto info = take<mad::SmInfo>(answer.mad, mad::kSmInfoTable);
        EXPECT_EQ(info.sm_state, 3);
        EXPECT_EQ(info.guid, 1U);
    }
    EXPECT_EQ(info_of(query()).sm_state, 3);
}

TEST_F(SmInfoTest, WrongKinds) {
    const auto status = [&](std::size_t octet, std::uint8_t value) {
        MadPacket packet = query();
        packet.mad.at(octet) = std::byte{value};
        return status_of(packet);
    };
    EXPECT_EQ(status(0, 2), kStatusBadVersion);
    EXPECT_EQ(status(2, 2), kStatusBadVersion);
    EXPECT_EQ(status(3, wire::kMadSend), kStatusBadMethod);
    EXPECT_EQ(status(3, wire::kMadGetTable), kStatusBadMethod);
    // Of others, or for nobody.
    EXPECT_FALSE(is_answered(query(wire::kMadGetResponse)));
    EXPECT_FALSE(is_answered(query(wire::kMadTrap)));
    EXPECT_FALSE(is_answered(query(wire::kMadTrapRepress)));
    EXPECT_FALSE(is_answered(smp(lid_routed(wire::kMadGet, mad::kPortInfo))));
    MadPacket packet = query();
    packet.mad[1] = std::byte{wire::kMadClassSubnetAdministration};
    EXPECT_FALSE(is_answered(packet));
}

}  // namespace
}  // namespace urnic::subnet
