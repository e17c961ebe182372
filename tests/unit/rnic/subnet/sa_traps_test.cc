// Traps of nodes that reach the built-in subnet manager: repressed, reported to subscribers, and those that
// lie.
#include <gtest/gtest.h>

#include "tests/support/random_bytes.h"
#include "tests/unit/rnic/subnet/smp_builder.h"
#include "tests/unit/rnic/subnet/subscription_fixture.h"

namespace urnic::subnet {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the fixture's words

class TrapTest : public SubscriptionTest {
  protected:
    /// Of a channel adapter, to the manager.
    static MadPacket trap(std::uint16_t number, std::uint16_t slid = 3) {
        mad::Notice notice;
        notice.is_generic = true;
        notice.type = 4;
        notice.producer_type = mad::kChannelAdapter;
        notice.trap_number = number;
        notice.issuer_lid = slid;
        notice.notice_count = 5;
        notice.data_details[53] = 0x77;
        return trap_of(notice, slid);
    }
    static MadPacket trap_of(const mad::Notice& notice, std::uint16_t slid = 3) {
        MadPacket packet = packet_of(lid_routed(wire::kMadTrap, mad::kNotice), 1);
        packet.slid = slid;
        packet.sl = 2;
        test::put(packet.mad, mad::kNoticeTable, notice);
        return packet;
    }
    Told on_trap(const MadPacket& packet) {
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(packet, now_));
        return told();
    }
    [[nodiscard]] std::uint64_t dropped() const { return administrator_->counters().drop_trap; }
};

TEST_F(TrapTest, RepressedAndReportedOctetByOctet) {
    EXPECT_EQ(set(to_all()), 0);
    MadPacket packet = trap(144);
    store_be64(&packet.mad[24], 0x1122);
    sent_.clear();
    EXPECT_TRUE(administrator_->handle(packet, now_));
    ASSERT_EQ(sent_.size(), 2U);
    // The trap itself goes back, with its transaction ID and M_Key (IBA 13.4.9).
    const MadPacket repress = sent_.front();
    MadBytes expected = packet.mad;
    put(expected, 3, {wire::kMadTrapRepress});
    EXPECT_EQ(repress.mad, expected);
    EXPECT_EQ(repress.dlid, 3);
    EXPECT_EQ(repress.slid, 1);
    EXPECT_EQ(repress.sl, 2);
    EXPECT_EQ(repress.src_qp, 0U);
    EXPECT_EQ(repress.dest_qp, 0U);
    // The report has the notice as it came, and who has sent it.
    EXPECT_EQ(told(), (Told{{kAsker, 144}}));
    MadBytes report = last_report_.mad;
    EXPECT_EQ(MadRef(report).mgmt_class(), wire::kMadClassSubnetAdministration);
    EXPECT_TRUE(std::equal(report.begin() + 56, report.begin() + 56 + 64, packet.mad.begin() + 64));
    MadBytes issuer{};
    put(issuer, 0, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3});
    EXPECT_TRUE(std::equal(issuer.begin(), issuer.begin() + 16, report.begin() + 56 + 64));
    EXPECT_EQ(administrator_->counters().traps, 1U);
    EXPECT_TRUE(answer_report());
    EXPECT_EQ(administrator_->next_event(), kNever);
}

TEST_F(TrapTest, WhoHearsOfIt) {
    const auto hears = [&](auto change) {
        mad::InformInfo info = to_all();
        change(info);
        EXPECT_EQ(set(info), 0);
        const bool is = !on_trap(trap(144)).empty();
        info.subscribe = 0;
        info.qpn = 1;
        EXPECT_EQ(set(info), 0);
        return is;
    };
    using I = mad::InformInfo;
    EXPECT_TRUE(hears([](I& info) { info.trap_number = 144; }));
    EXPECT_FALSE(hears([](I& info) { info.trap_number = 128; }));
    EXPECT_TRUE(hears([](I& info) { info.lid_range_begin = 3; })) << "the node's LID, not the manager's";
    EXPECT_FALSE(hears([](I& info) { info.lid_range_begin = 1; }));
    EXPECT_TRUE(hears([](I& info) { info.gid = gid_of(3); }));
    EXPECT_FALSE(hears([](I& info) { info.gid = gid_of(1); }));
    EXPECT_TRUE(hears([](I& info) { info.producer_type = 1; }));
    EXPECT_FALSE(hears([](I& info) { info.producer_type = 2; }));
    EXPECT_FALSE(hears([](I& info) { info.is_generic = 0; }));
    EXPECT_EQ(on_trap(trap(144)), Told{}) << "nobody has subscribed";
    EXPECT_EQ(administrator_->counters().traps, 10U) << "and it is repressed";
    // Of other partitions nobody hears.
    EXPECT_EQ(set(to_all()), 0);
    nodes_[1].ports[1].pkeys.entries = {0x7fff, 0x8005};
    nodes_[2].ports[1].pkeys.entries = {0x7fff, 0x8006};
    EXPECT_EQ(on_trap(trap(144)), Told{});
    nodes_[2].ports[1].pkeys.entries = {0xffff};
    EXPECT_EQ(on_trap(trap(144)), (Told{{kAsker, 144}}));
}

/// A vendor's own trap, and one of a switch.
TEST_F(TrapTest, OtherProducers) {
    EXPECT_EQ(set(to_all()), 0);
    mad::InformInfo vendors = to_all();
    vendors.is_generic = 0;
    EXPECT_EQ(set(vendors, 3), 0);
    mad::Notice notice;
    notice.producer_type = 0x123456;
    notice.trap_number = 65;  // a device ID here
    notice.issuer_lid = 3;
    EXPECT_EQ(on_trap(trap_of(notice)), (Told{{3, 65}}));
    notice.is_generic = true;
    notice.type = 1;
    notice.producer_type = mad::kSwitch;
    notice.trap_number = 128;
    EXPECT_EQ(on_trap(trap_of(notice)), (Told{{kAsker, 128}}));
}

TEST_F(TrapTest, TrapsThatLie) {
    EXPECT_EQ(set(to_all()), 0);
    const auto is_dropped = [&](const MadPacket& packet) {
        const std::uint64_t before = dropped();
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(packet, now_));
        EXPECT_EQ(sent_.empty(), dropped() == before + 1);
        return dropped() == before + 1;
    };
    EXPECT_FALSE(is_dropped(trap(144)));
    EXPECT_TRUE(is_dropped(trap(144, 9))) << "of nobody";
    MadPacket packet = trap(144);
    packet.slid = 2;
    EXPECT_TRUE(is_dropped(packet)) << "of another than its issuer";
    packet = trap(144);
    packet.mad[0] = std::byte{2};
    EXPECT_TRUE(is_dropped(packet));
    packet = trap(144);
    packet.mad[2] = std::byte{2};
    EXPECT_TRUE(is_dropped(packet));
    packet = packet_of(directed(wire::kMadTrap, mad::kNotice, 0, {1}));
    EXPECT_TRUE(is_dropped(packet));
    // Ports and groups come and go by the manager's word alone.
    for (const std::uint16_t number : {64, 65, 66, 67}) {
        EXPECT_TRUE(is_dropped(trap(number))) << number;
    }
    EXPECT_FALSE(is_dropped(trap(63)));
    EXPECT_FALSE(is_dropped(trap(68)));
    // Other attributes, and what is no trap, are nobody's.
    sent_.clear();
    EXPECT_FALSE(administrator_->handle(packet_of(lid_routed(wire::kMadTrap, mad::kPortInfo), 1), now_));
    EXPECT_FALSE(administrator_->handle(packet_of(lid_routed(wire::kMadGet, mad::kNotice), 1), now_));
    EXPECT_FALSE(administrator_->handle(packet_of(lid_routed(wire::kMadTrapRepress, mad::kNotice), 1), now_));
    EXPECT_TRUE(sent_.empty());
}

/// However many come: who has not answered so many is told of no more, and each is repressed.
TEST_F(TrapTest, AFloodOfTraps) {
    EXPECT_EQ(set(to_all()), 0);
    std::size_t reports = 0;
    for (int i = 0; i < 1000; ++i) {
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(trap(128), now_));
        EXPECT_GE(sent_.size(), 1U);
        reports += told().size();
    }
    EXPECT_EQ(reports, SaSubscriptions::kMaxReportsOfOne);
    EXPECT_EQ(subscriptions().counters().drop_full, 1000 - reports);
}

TEST_F(TrapTest, TrapNoise) {
    urnic::test::Random random;
    EXPECT_EQ(set(to_all()), 0);
    for (int i = 0; i < 5000; ++i) {
        MadPacket packet = trap(static_cast<std::uint16_t>(60 + random.below(200)),
                                static_cast<std::uint16_t>(random.below(5)));
        packet.mad.at(random.below(256)) = random.bytes(1)[0];
        sent_.clear();
        const std::uint64_t repressed = administrator_->counters().traps;
        (void)administrator_->handle(packet, now_);
        // A repress, a report; or the answer to what is a Get of SMInfo now.
        ASSERT_LE(sent_.size(), 2U) << random;
        ASSERT_LE(administrator_->counters().traps, repressed + 1) << random;
        if (!told().empty()) {
            EXPECT_TRUE(answer_report()) << random;
        }
    }
}

}  // namespace
}  // namespace urnic::subnet
