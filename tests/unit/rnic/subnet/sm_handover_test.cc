// The built-in subnet manager beside others: SMInfoRecord, who is asked, who gets the subnet, and who does
// not.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random_bytes.h"
#include "tests/unit/rnic/subnet/administrator_fixture.h"
#include "tests/unit/rnic/subnet/smp_builder.h"

namespace urnic::subnet {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the fixture's words

enum TheirState : std::uint8_t { kNotActive = 0, kDiscovering = 1, kStandby = 2, kMaster = 3 };
constexpr std::uint32_t kHandsItOver = 1;
constexpr TimeNs kPoll = SmHandover::kPollNs;

class SmHandoverTest : public AdministratorTest {
  protected:
    SmHandoverTest() { begin(SubnetAdministrator::Succession::kHandsOver); }
    void begin(SubnetAdministrator::Succession succession) {
        std::vector<const Node*> nodes;
        for (const Node& node : nodes_) {
            nodes.push_back(&node);
        }
        administrator_.emplace(
            nodes_.front(), nodes, [this](const MadPacket& packet) { sent_.push_back(packet); }, succession);
    }
    void say_is_sm(std::size_t port, bool is_sm = true) {
        std::uint32_t& mask = nodes_[port - 1].ports[1].info.capability_mask;
        mask = is_sm ? mask | kIsSm : mask & ~kIsSm;
    }
    /// What the manager asks at this time.
    std::vector<MadPacket> advance(TimeNs by = 0) {
        now_ += by;
        sent_.clear();
        administrator_->advance(now_);
        return {sent_.begin(), sent_.end()};
    }
    static std::uint32_t modifier_of(MadPacket packet) { return MadRef(packet.mad).attribute_modifier(); }
    static std::uint8_t method_of(MadPacket packet) { return MadRef(packet.mad).method(); }
    /// Their answer to the one packet that was sent. Returns what it leads to.
    std::vector<MadPacket> answer(const MadPacket& asked, std::uint8_t state, std::uint16_t status = 0) {
        sent_.clear();
        EXPECT_TRUE(administrator_->handle(response(asked, state, status), now_));
        return {sent_.begin(), sent_.end()};
    }
    static MadPacket response(const MadPacket& asked, std::uint8_t state, std::uint16_t status = 0) {
        MadPacket back = asked;
        back.slid = asked.dlid;
        back.dlid = 1;
        mad::SmInfo info;
        info.guid = asked.dlid;
        info.sm_state = state;
        test::put(back.mad, mad::kSmInfoTable, info);
        make_response(MadRef(back.mad), status);
        return back;
    }
    std::uint8_t own_state() {
        MadPacket packet = packet_of(lid_routed(wire::kMadGet, mad::kSmInfo), 1);
        packet.slid = kAsker;
        return take<mad::SmInfo>(ask(packet).mad, mad::kSmInfoTable).sm_state;
    }
};

TEST_F(SmHandoverTest, TheRecordOfTheManager) {
    const auto record = [&](std::uint64_t mask, const mad::SmInfo& wanted, std::uint16_t lid = 1) {
        MadPacket packet =
            request(wire::kMadGet, mad::kSmInfoRecord, mask, mad::kLidRecordTable, mad::LidRecord{lid});
        MadRef(packet.mad).write(mad::kSmInfoTable, mad::kSaDataOffset + 4, wanted);
        return packet;
    };
    // Octet by octet: LID 1, GUID 1, no SM_Key, ActCount, priority 0 and Master.
    MadPacket packet = record(0, {});
    MadBytes expected = packet.mad;
    put(expected, 3, {wire::kMadGetResponse});
    put(expected, 56, {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
    put(expected, 56 + 4 + 20, {0x03});
    EXPECT_EQ(ask(packet).mad, expected);
    EXPECT_EQ(table<mad::LidRecord>(request(wire::kMadGetTable, mad::kSmInfoRecord, 0), mad::kLidRecordTable),
              (std::vector<mad::LidRecord>{{1}}));
    // By each component, and with another value of it.
    mad::SmInfo wanted{.guid = 1, .sm_key = 0, .act_count = 0, .priority = 0, .sm_state = 3};
    const std::uint64_t all = component(0) | component(2) | component(3) | component(5) | component(6);
    EXPECT_EQ(status_of(record(all, wanted)), 0);
    EXPECT_EQ(status_of(record(all, wanted, 2)), kSaNoRecords);
    EXPECT_EQ(status_of(record(all, {.guid = 2, .sm_state = 3})), kSaNoRecords);
    EXPECT_EQ(status_of(record(all, {.guid = 1, .sm_key = 1, .sm_state = 3})), kSaNoRecords);
    EXPECT_EQ(status_of(record(all, {.guid = 1, .priority = 1, .sm_state = 3})), kSaNoRecords);
    EXPECT_EQ(status_of(record(all, {.guid = 1, .sm_state = 2})), kSaNoRecords);
    EXPECT_EQ(status_of(record(component(4), {.act_count = 0xffff})), kSaNoRecords);
    // The key is for who is trusted.
    packet = record(component(3), {.sm_key = SubnetAdministrator::kSmKey});
    EXPECT_EQ(status_of(packet), kSaNoRecords);
    put(packet.mad, 36 + 7, {1});
    EXPECT_EQ(status_of(packet), 0);
    // A gap, and what is none of it.
    EXPECT_EQ(status_of(record(component(1), wanted)), kSaRequestInvalid);
    EXPECT_EQ(status_of(record(component(7), wanted)), kSaRequestInvalid);
    for (const std::uint8_t method : {wire::kMadSet, wire::kMadDelete}) {
        EXPECT_EQ(status_of(request(method, mad::kSmInfoRecord, 0)), kStatusBadAttribute);
    }
}

/// As opensm becomes the manager: it discovers, stands by, and is handed the subnet.
TEST_F(SmHandoverTest, AStandbyGetsTheSubnet) {
    EXPECT_TRUE(advance().empty()) << "nobody is there";
    EXPECT_EQ(administrator_->next_event(), kNever);
    say_is_sm(3);
    std::vector<MadPacket> asked = advance();
    ASSERT_EQ(asked.size(), 1U);
    MadBytes expected = lid_routed(wire::kMadGet, mad::kSmInfo);
    put(expected, 8, {0, 0, 0, 0, 0, 0, 0, 1});
    EXPECT_EQ(asked[0].mad, expected);
    EXPECT_EQ(asked[0].dlid, 3);
    EXPECT_EQ(asked[0].dest_qp, 0U);
    EXPECT_EQ(asked[0].qkey, 0U);
    EXPECT_TRUE(answer(asked[0], kDiscovering).empty());
    EXPECT_TRUE(advance(kPoll - 1).empty());
    EXPECT_EQ(administrator_->next_event(), now_ + 1);
    asked = advance(1);
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_TRUE(answer(asked[0], kNotActive).empty());
    asked = advance(kPoll);
    ASSERT_EQ(asked.size(), 1U);
    const std::vector<MadPacket> handover = answer(asked[0], kStandby);
    ASSERT_EQ(handover.size(), 1U);
    EXPECT_EQ(method_of(handover[0]), wire::kMadSet);
    EXPECT_EQ(modifier_of(handover[0]), kHandsItOver);
    EXPECT_EQ(handover[0].dlid, 3);
    // It is from the master.
    const auto info = take<mad::SmInfo>(handover[0].mad, mad::kSmInfoTable);
    EXPECT_EQ(info.guid, 1U);
    EXPECT_EQ(info.sm_state, kMaster);
    EXPECT_EQ(own_state(), kMaster) << "until it is answered";
    EXPECT_TRUE(answer(handover[0], kStandby).empty());
    EXPECT_EQ(own_state(), kNotActive);
    EXPECT_TRUE(advance(kPoll).empty()) << "it is left alone";
    // It says so on all ports; nothing is left to do.
    nodes_[0].ports[1].info.master_sm_lid = 3;
    EXPECT_TRUE(advance(SmHandover::kTakeoverNs).empty());
    EXPECT_EQ(administrator_->next_event(), kNever);
}

TEST_F(SmHandoverTest, WhoDoesNotTakeItDoesNotHaveIt) {
    say_is_sm(3);
    const auto hand_over = [&] { return answer(advance(kPoll).at(0), kStandby).at(0); };
    // Refused, or never answered.
    EXPECT_TRUE(answer(hand_over(), kStandby, kStatusBadValue).empty());
    EXPECT_EQ(own_state(), kMaster);
    (void)hand_over();
    EXPECT_EQ(method_of(advance(kPoll).at(0)), wire::kMadGet);
    EXPECT_EQ(own_state(), kMaster);
    // Accepted, but the ports do not say so.
    EXPECT_TRUE(answer(hand_over(), kStandby).empty());
    EXPECT_EQ(own_state(), kNotActive);
    EXPECT_TRUE(advance(SmHandover::kTakeoverNs - 1).empty());
    EXPECT_EQ(advance(1).size(), 1U);
    EXPECT_EQ(own_state(), kMaster);
    // Accepted, and its program has gone.
    EXPECT_TRUE(answer(hand_over(), kStandby).empty());
    say_is_sm(3, false);
    EXPECT_TRUE(advance().empty());
    EXPECT_EQ(own_state(), kMaster);
    EXPECT_EQ(administrator_->next_event(), kNever);
}

TEST_F(SmHandoverTest, ASecondMasterKeepsIt) {
    say_is_sm(3);
    EXPECT_TRUE(answer(advance().at(0), kMaster).empty());
    EXPECT_EQ(own_state(), kNotActive);
}

/// One that never answers keeps nobody else from it.
TEST_F(SmHandoverTest, OthersHaveTheirTurn) {
    say_is_sm(2);
    say_is_sm(3);
    const std::uint16_t first = advance().at(0).dlid;
    const MadPacket second = advance(kPoll).at(0);
    EXPECT_NE(second.dlid, first);
    EXPECT_EQ(advance(kPoll).at(0).dlid, first);
    // What is late is not counted.
    sent_.clear();
    EXPECT_FALSE(administrator_->handle(response(second, kStandby), now_));
    EXPECT_TRUE(sent_.empty());
}

TEST_F(SmHandoverTest, AnswersThatAreNone) {
    say_is_sm(3);
    const MadPacket asked = advance().at(0);
    const auto is_taken = [&](auto change) {
        MadPacket back = response(asked, kStandby);
        change(back);
        sent_.clear();
        const bool is = administrator_->handle(back, now_);
        EXPECT_TRUE(sent_.empty());
        return is;
    };
    EXPECT_FALSE(is_taken([](MadPacket& packet) { packet.slid = 2; }));
    EXPECT_FALSE(is_taken([](MadPacket& packet) { packet.mad[15] = std::byte{9}; })) << "transaction ID";
    EXPECT_FALSE(is_taken([](MadPacket& packet) { packet.mad[8] = std::byte{9}; })) << "a program's";
    EXPECT_FALSE(is_taken([](MadPacket& packet) { packet.mad[17] = std::byte{mad::kPortInfo}; }));
    EXPECT_FALSE(is_taken([](MadPacket& packet) { packet.mad[3] = std::byte{0x92}; }));
    EXPECT_TRUE(is_taken([](MadPacket& packet) { packet.mad[5] = std::byte{kStatusBadAttribute}; }));
    EXPECT_FALSE(is_taken([](MadPacket& /*packet*/) {})) << "it has been answered";
}

/// A subnet that is planned stays the built-in manager's, and a program that has it at the same port keeps
/// it.
TEST_F(SmHandoverTest, WhereNobodyIsAsked) {
    say_is_sm(3);
    administrator_->set_program(true);
    EXPECT_TRUE(advance().empty());
    administrator_->set_program(false);
    EXPECT_EQ(advance().size(), 1U);
    // Down: nobody can be reached.
    (void)set_connected(nodes_[0], 1, false);
    EXPECT_TRUE(advance(kPoll).empty());
    EXPECT_EQ(administrator_->next_event(), kNever);
    (void)set_connected(nodes_[0], 1, true);
    nodes_[0].ports[1].info.port_state = mad::kActive;
    EXPECT_EQ(advance().size(), 1U);
    begin(SubnetAdministrator::Succession::kStaysMaster);
    EXPECT_TRUE(advance().empty());
    EXPECT_EQ(administrator_->next_event(), kNever);
    EXPECT_EQ(own_state(), kMaster);
}

/// Whatever others answer: a request every half second, and one Set for each at most.
TEST_F(SmHandoverTest, ManagersThatLie) {
    urnic::test::Random random;
    say_is_sm(2);
    say_is_sm(3);
    for (int i = 0; i < 2000; ++i) {
        std::vector<MadPacket> asked = advance(kPoll);
        ASSERT_LE(asked.size(), 1U) << random;
        for (int turn = 0; turn < 3 && !asked.empty(); ++turn) {
            MadPacket back =
                response(asked[0], static_cast<std::uint8_t>(random.below(16)),
                         random.below(4) == 0 ? std::uint16_t{kStatusBadValue} : std::uint16_t{0});
            if (random.below(4) == 0) {
                back.mad.at(random.below(64)) = random.bytes(1)[0];
            }
            sent_.clear();
            (void)administrator_->handle(back, now_);
            asked.assign(sent_.begin(), sent_.end());
            ASSERT_LE(asked.size(), 1U) << random;
        }
        EXPECT_TRUE(own_state() == kMaster || own_state() == kNotActive) << random;
    }
}

}  // namespace
}  // namespace urnic::subnet
