// Multicast groups by the built-in subnet administrator: who joins, makes and leaves them, what is refused,
// who sees members.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/rnic/subnet/administrator_fixture.h"

namespace urnic::subnet {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the fixture's words

TEST_F(AdministratorTest, TheBroadcastGroupIsThere) {
    auto record = member({0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff});
    record.qkey = 0;
    const auto joined = member_of(ask(member_request(wire::kMadSet, kLinuxJoin, record)));
    EXPECT_EQ(joined.mlid, 0xc000);
    EXPECT_EQ(joined.qkey, 0x0b1bU);
    EXPECT_EQ(joined.mtu_selector, 2);
    EXPECT_EQ(joined.mtu, 4);
    EXPECT_EQ(joined.rate, 3);
    EXPECT_EQ(joined.scope, 2);
    EXPECT_EQ(joined.join_state, kFullMember);
    EXPECT_EQ(joined.port_gid, gid_of(2));
    mad::PathRecord wanted;
    wanted.sgid = gid_of(2);
    wanted.dgid = record.mgid;
    const auto path = path_of(ask(path_request(wire::kMadGet, pc::kSgid | pc::kDgid, wanted)));
    EXPECT_EQ(path.dlid, 0xc000);
    EXPECT_EQ(path.slid, 2);
    EXPECT_EQ(path.mtu, 4);
    wanted.mtu_selector = 0;
    wanted.mtu = 4;
    EXPECT_EQ(
        status_of(path_request(wire::kMadGet, pc::kSgid | pc::kDgid | pc::kMtu | pc::kMtuSelector, wanted)),
        kSaNoRecords);
    // And stays.
    EXPECT_EQ(leave(record), 0);
    EXPECT_NE(administrator_->groups().find(record.mgid), nullptr);
}

TEST_F(AdministratorTest, EachPartitionHasABroadcastGroup) {
    nodes_[1].ports[1].pkeys.entries = {0xffff, 0x8005, 0x0006};
    nodes_[2].ports[1].pkeys.entries = {0xffff, 0x8005};
    std::vector<const Node*> nodes;
    for (const Node& node : nodes_) {
        nodes.push_back(&node);
    }
    administrator_.emplace(nodes_.front(), nodes,
                           [this](const MadPacket& packet) { sent_.push_back(packet); });
    EXPECT_EQ(administrator_->groups().size(), 2U) << "of partitions with full members";
    const wire::Gid mgid{0xff, 0x12, 0x40, 0x1b, 0x80, 0x05, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    auto record = member(mgid);
    record.pkey = 0x8005;
    const auto joined = member_of(ask(member_request(wire::kMadSet, kLinuxJoin, record)));
    EXPECT_EQ(joined.mlid, 0xc001);
    EXPECT_EQ(joined.qkey, 0x0b1bU);
    EXPECT_EQ(joined.pkey, 0x8005);
    auto stranger = member(mgid, 1);
    stranger.pkey = 0x8005;
    EXPECT_EQ(join(kLinuxJoin, stranger, 1), kSaRequestInvalid);
    EXPECT_EQ(leave(record), 0);
    EXPECT_NE(administrator_->groups().find(mgid), nullptr);
}

TEST_F(AdministratorTest, AGroupLivesWithItsFullMembers) {
    const wire::Gid mgid = group_gid(1);
    EXPECT_EQ(join(kLinuxJoin, member(mgid)), kSaInsufficientComponents);  // it would have to be made
    const auto made = member_of(ask(member_request(wire::kMadSet, kCreate, member(mgid))));
    EXPECT_EQ(made.mlid, 0xc001);
    EXPECT_EQ(made.mtu, 5);
    EXPECT_EQ(made.rate, 16);
    EXPECT_EQ(made.qkey, 0x8000'1b0bU);
    // Port 3 has MTU 2048: the packets would not fit.
    EXPECT_EQ(join(kLinuxJoin, member(mgid, 3), 3), kSaRequestInvalid);
    EXPECT_EQ(join(kLinuxJoin, member(mgid, 1, kSendOnlyNonMember), 1), 0);
    // States add up.
    EXPECT_EQ(join(kLinuxJoin, member(mgid, 2, kNonMember)), 0);
    EXPECT_EQ(leave(member(mgid, 2, kSendOnlyNonMember)), kSaRequestInvalid);
    EXPECT_EQ(leave(member(mgid, 2, kNonMember)), 0);
    EXPECT_EQ(leave(member(mgid, 3), 3), kSaRequestInvalid);
    EXPECT_NE(administrator_->groups().find(mgid), nullptr);
    EXPECT_EQ(member_of(ask(member_request(wire::kMadDelete, kCreate, member(mgid)))).join_state,
              kFullMember);
    EXPECT_EQ(administrator_->groups().find(mgid), nullptr);
    EXPECT_EQ(leave(member(mgid)), kSaRequestInvalid);
    // The MLID is free again.
    EXPECT_EQ(member_of(ask(member_request(wire::kMadSet, kCreate, member(group_gid(7))))).mlid, 0xc001);
    // A port that goes down leaves all.
    administrator_->on_port_down(nodes_[1], now_);
    EXPECT_EQ(administrator_->groups().size(), 1U);
}

/// SendOnlyFullMember makes a group and keeps it; SendOnlyNonMember and NonMember do neither.
TEST_F(AdministratorTest, MembersThatOnlySend) {
    const wire::Gid mgid = group_gid(1);
    for (const JoinState state :
         {kNonMember, kSendOnlyNonMember, JoinState{kNonMember | kSendOnlyNonMember}}) {
        EXPECT_EQ(join(kCreate, member(mgid, 2, state)), kSaRequestInvalid) << unsigned{state};
    }
    const auto made =
        member_of(ask(member_request(wire::kMadSet, kCreate, member(mgid, 2, kSendOnlyFullMember))));
    EXPECT_EQ(made.join_state, kSendOnlyFullMember);
    EXPECT_EQ(made.mlid, 0xc001);
    EXPECT_EQ(join(kLinuxJoin, member(mgid, 1, kSendOnlyNonMember), 1), 0);
    // A member of both kinds stays one when it leaves one of them.
    EXPECT_EQ(member_of(ask(member_request(wire::kMadSet, kLinuxJoin, member(mgid, 2)))).join_state,
              kFullMember | kSendOnlyFullMember);
    EXPECT_EQ(leave(member(mgid, 2)), 0);
    MadPacket all = member_request(wire::kMadGetTable, mc::kJoinState, member(mgid, 2, kSendOnlyFullMember));
    put(all.mad, 36 + 7, {1});
    const auto members = table<mad::McMemberRecord>(all, mad::kMcMemberRecordTable);
    ASSERT_EQ(members.size(), 1U);
    EXPECT_EQ(members[0].join_state, kSendOnlyFullMember);
    EXPECT_EQ(leave(member(mgid, 2)), kSaRequestInvalid);
    EXPECT_EQ(leave(member(mgid, 2, kSendOnlyFullMember)), 0);
    EXPECT_EQ(administrator_->groups().find(mgid), nullptr)
        << "who only sends as a non-member does not keep it";
}

TEST_F(AdministratorTest, JoinsThatAreRefused) {
    const wire::Gid mgid = group_gid(1);
    const auto refused = [&](std::uint64_t mask, auto change, std::uint16_t slid = kAsker) {
        mad::McMemberRecord record = member(mgid);
        change(record);
        const std::size_t before = administrator_->groups().size();
        const std::uint16_t status = join(mask, record, slid);
        EXPECT_EQ(administrator_->groups().size(), before);
        return status;
    };
    const auto nothing = [](auto&) {};
    for (const std::uint64_t left_out :
         {mc::kPortGid, mc::kQkey, mc::kPkey, mc::kSl, mc::kFlowLabel, mc::kTclass, mc::kJoinState}) {
        EXPECT_EQ(refused(kCreate & ~left_out, nothing), kSaInsufficientComponents) << left_out;
    }
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.join_state = 0; }), kSaRequestInvalid);
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.join_state = kSendOnlyNonMember; }), kSaRequestInvalid);
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.port_gid = gid_of(9); }), kSaInvalidGid);
    EXPECT_EQ(refused(kCreate, nothing, 1), kSaRequestInvalid);  // for another port
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.mgid = gid_of(1); }), kSaInvalidGid);
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.mgid[1] = 0x22; }), kSaInvalidGid);  // flags that are reserved
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.mgid[1] = 0x10; }), kSaInvalidGid);  // scope
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.mgid[2] = 0xa0; }), kSaInvalidGid);  // the administrator's
    EXPECT_EQ(refused(kCreate | mc::kMlid, [](auto& r) { r.mlid = 0xc123; }), kSaRequestInvalid);
    EXPECT_EQ(refused(kCreate | mc::kScope, [](auto& r) { r.scope = 5; }), kSaRequestInvalid);
    EXPECT_EQ(refused(kCreate, [](auto& r) { r.pkey = 0; }), kSaRequestInvalid);
    EXPECT_EQ(refused(kCreate | component(18), nothing), kSaRequestInvalid);
    EXPECT_EQ(refused(kCreate | mc::kMtu | mc::kMtuSelector, [](auto& r) { r.mtu_selector = 2, r.mtu = 6; }),
              kSaRequestInvalid);
    EXPECT_EQ(
        refused(kCreate | mc::kRate | mc::kRateSelector, [](auto& r) { r.rate_selector = 0, r.rate = 16; }),
        kSaRequestInvalid);
    EXPECT_EQ(
        refused(kCreate | mc::kLife | mc::kLifeSelector, [](auto& r) { r.packet_life_time_selector = 2; }),
        kSaRequestInvalid);

    ASSERT_EQ(join(kCreate, member(mgid)), 0);
    // What a group is not.
    const std::uint64_t all = kCreate | mc::kMlid | mc::kMtu | mc::kMtuSelector | mc::kHopLimit | mc::kScope;
    const auto like = [](auto& r) { r.mlid = 0xc001, r.mtu_selector = 2, r.mtu = 5, r.scope = 2; };
    EXPECT_EQ(refused(all, like), 0);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.qkey = 1; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.mlid = 0xc000; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.mtu = 4; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.tclass = 1; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.sl = 1; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.flow_label = 1; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.hop_limit = 1; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.pkey = 0x8001; }), kSaRequestInvalid);
    EXPECT_EQ(refused(all, [&](auto& r) { like(r), r.scope = 5; }), kSaRequestInvalid);
}

TEST_F(AdministratorTest, MgidsOfTheAdministrator) {
    const auto first = member_of(ask(member_request(wire::kMadSet, kCreate & ~mc::kMgid, member({}))));
    const auto second = member_of(ask(member_request(wire::kMadSet, kCreate, member({}))));
    EXPECT_EQ(first.mgid,
              (wire::Gid{0xff, 0x12, 0xa0, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0x01}));
    EXPECT_NE(first.mgid, second.mgid);
    EXPECT_NE(first.mlid, second.mlid);
}

TEST_F(AdministratorTest, WhoSeesMembers) {
    ASSERT_EQ(join(kCreate, member(group_gid(1), 1), 1), 0);
    ASSERT_EQ(join(kLinuxJoin, member(group_gid(1), 2), 2), 0);
    MadPacket all = member_request(wire::kMadGetTable, 0, {});
    const auto groups = table<mad::McMemberRecord>(all, mad::kMcMemberRecordTable);
    ASSERT_EQ(groups.size(), 2U);  // and the broadcast group
    EXPECT_EQ(groups[1].port_gid, wire::Gid{});
    EXPECT_EQ(groups[1].join_state, 0);
    all = member_request(wire::kMadGetTable, 0, {});
    put(all.mad, 36 + 7, {1});
    const auto members = table<mad::McMemberRecord>(all, mad::kMcMemberRecordTable);
    ASSERT_EQ(members.size(), 2U);
    EXPECT_EQ(members[0].port_gid, gid_of(1));
    EXPECT_EQ(members[1].port_gid, gid_of(2));
    // One of them, by what it must have.
    mad::McMemberRecord wanted = member(group_gid(1), 2);
    MadPacket one = member_request(wire::kMadGet, mc::kMgid | mc::kPortGid | mc::kJoinState, wanted);
    EXPECT_EQ(status_of(one), kSaNoRecords);
    put(one.mad, 36 + 7, {1});
    EXPECT_EQ(member_of(ask(one)).mlid, 0xc001);
    wanted.mtu_selector = 1;
    wanted.mtu = 5;
    EXPECT_EQ(status_of(member_request(wire::kMadGet, mc::kMgid | mc::kMtu | mc::kMtuSelector, wanted)),
              kSaNoRecords);
    // For another port, with the key and in so many words.
    MadPacket proxy = member_request(wire::kMadDelete, kCreate | mc::kProxyJoin, member(group_gid(1), 1));
    put(proxy.mad, 36 + 7, {1});
    EXPECT_EQ(status_of(proxy), kSaRequestInvalid);
    put(proxy.mad, 56 + 49, {0x80});
    EXPECT_EQ(status_of(proxy), 0);
}

TEST_F(AdministratorTest, GroupsAreBounded) {
    for (std::uint16_t i = 1; i < SaGroups::kMaxGroups; ++i) {
        ASSERT_EQ(join(kCreate, member(group_gid(i))), 0) << i;
    }
    EXPECT_EQ(join(kCreate, member(group_gid(0x2000))), kSaNoResources);
    EXPECT_EQ(leave(member(group_gid(500))), 0);
    EXPECT_EQ(member_of(ask(member_request(wire::kMadSet, kCreate, member(group_gid(0x2000))))).mlid,
              0xc000 + 500);
}

}  // namespace
}  // namespace urnic::subnet
