// librdmacm's commands on ports of InfiniBand, with a subnet administrator that answers well, badly, late or
// not at all.
#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/daemon/cm/cm_infiniband_fixture.h"

namespace urnic::daemon {
namespace {

TEST_F(CmInfinibandTest, ARouteIsWhatTheAdministratorSays) {
    const std::uint32_t id = resolved();
    EXPECT_TRUE(gsi_.sent.empty());
    ASSERT_EQ(ask_route(id), 0);
    ASSERT_EQ(gsi_.sent.size(), 1U);
    EXPECT_EQ(gsi_.sent[0].dlid, kAdministratorLid);
    EXPECT_EQ(gsi_.sent[0].sl, 2);
    EXPECT_EQ(gsi_.sent[0].slid, 1) << "of the RNIC that has another address than the one looked for";
    EXPECT_EQ(ask_route(id), EINVAL) << "it is under way";
    EXPECT_EQ(connect(id), EINVAL) << "there is no path yet";
    EXPECT_EQ(get_event(), EAGAIN);
    ASSERT_TRUE(answer_path());
    ASSERT_EQ(next_event(), kRouteResolved);

    rdma_ucm_query query{};
    query.id = id;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
    const auto route = answer<rdma_ucm_query_route_resp>();
    ASSERT_EQ(route.num_paths, 1U);
    EXPECT_EQ(ntohs(route.ib_route[0].dlid), 2);
    EXPECT_EQ(ntohs(route.ib_route[0].slid), 1);
    EXPECT_EQ(ntohs(route.ib_route[0].pkey), 0xffff);
    EXPECT_EQ(route.ib_route[0].sl, 5);
    EXPECT_EQ(route.ib_route[0].mtu, 4);
    EXPECT_EQ(route.ib_route[0].rate, 3);
    EXPECT_TRUE(std::equal(devices_[1]->gids[0].begin(), devices_[1]->gids[0].end(), route.ib_route[0].dgid));
}

TEST_F(CmInfinibandTest, ARequestTakesThePath) {
    const std::uint32_t id = resolved();
    ASSERT_EQ(ask_route(id), 0);
    ASSERT_TRUE(answer_path());
    ASSERT_EQ(next_event(), kRouteResolved);
    ASSERT_EQ(connect(id), 0);
    const subnet::MadPacket& packet = gsi_.sent.back();
    EXPECT_EQ(packet.dlid, 2);
    EXPECT_EQ(packet.sl, 5);
    const auto message = wire::cm::parse_message(
        wire::cm::Req::kAttributeId, wire::cm::MessageBytes(packet.mad.data() + 24, wire::cm::kMessageBytes));
    ASSERT_TRUE(message);
    const auto& req = std::get<wire::cm::Req>(*message);
    EXPECT_EQ(req.primary.remote_lid, 2);
    EXPECT_EQ(req.primary.packet_rate, 3);
    EXPECT_EQ(req.primary.local_ack_timeout, 15) << "one more than the path's lifetime";
    EXPECT_EQ(req.path_mtu, 4);
    EXPECT_EQ(req.primary.local_gid, devices_[0]->gids[0]);
}

TEST_F(CmInfinibandTest, PathsThatAreNone) {
    const std::vector<std::pair<const char*, std::function<void(mad::PathRecord&)>>> lies{
        {"to another port", [](mad::PathRecord& path) { path.dgid[15] ^= 1; }},
        {"from another port", [](mad::PathRecord& path) { path.sgid[15] ^= 1; }},
        {"from another LID", [](mad::PathRecord& path) { path.slid = 2; }},
        {"without a LID", [](mad::PathRecord& path) { path.dlid = 0; }},
        {"to a group", [](mad::PathRecord& path) { path.dlid = kMlid; }},
        {"without an MTU", [](mad::PathRecord& path) { path.mtu = 0; }},
        {"with an MTU that there is not", [](mad::PathRecord& path) { path.mtu = 6; }},
        {"by a partition of others", [](mad::PathRecord& path) { path.pkey = 0x8123; }},
    };
    const std::uint32_t id = resolved();
    for (const auto& [what, change] : lies) {
        ASSERT_EQ(ask_route(id), 0) << what;
        ASSERT_TRUE(answer_path(change));
        ASSERT_EQ(next_event(), kRouteError) << what;
        EXPECT_EQ(event_error(), EINVAL);
        EXPECT_EQ(connect(id), EINVAL);
    }
    ASSERT_EQ(ask_route(id), 0);
    ASSERT_TRUE(answer_path({}, subnet::kSaNoRecords));
    ASSERT_EQ(next_event(), kRouteError);
    EXPECT_EQ(event_error(), EINVAL);
    ASSERT_EQ(ask_route(id), 0) << "it may be asked for again";
    ASSERT_TRUE(answer_path());
    EXPECT_EQ(next_event(), kRouteResolved);
}

TEST_F(CmInfinibandTest, AnAdministratorThatDoesNotAnswer) {
    const std::uint32_t id = resolved();
    ASSERT_EQ(ask_route(id, 8), 0);
    wait_for_event();
    ASSERT_EQ(next_event(), kRouteError);
    EXPECT_EQ(event_error(), ETIMEDOUT);
    EXPECT_EQ(gsi_.sent.size(), subnet::SaRequests::kTries);
    EXPECT_FALSE(answer_path()) << "too late";
}

TEST_F(CmInfinibandTest, WhoHasGoneHearsNothing) {
    const std::uint32_t id = resolved();
    ASSERT_EQ(ask_route(id), 0);
    ASSERT_EQ(destroy(id), 0);
    EXPECT_FALSE(answer_path());
    EXPECT_EQ(get_event(), EAGAIN);
    const std::uint32_t other = resolved();
    ASSERT_EQ(ask_route(other), 0);
    client_.reset();
    EXPECT_FALSE(answer_path());
}

TEST_F(CmInfinibandTest, SubnetsOfTheirOwn) {
    const std::uint32_t id = create();
    gsi_.is_one_subnet = false;
    EXPECT_EQ(resolve(id, ipv4(kSecond, 7174), ipv4(kFirst, 0)), EHOSTUNREACH);
    gsi_.is_one_subnet = true;
    EXPECT_EQ(resolve(create(), ipv4(0xc6120063, 7174)), ENETUNREACH) << "of nobody";
    gsi_.is_managed = false;
    EXPECT_EQ(resolve(create(), ipv4(kSecond, 7174)), ENETUNREACH) << "without an administrator";
    control_.gsi = nullptr;
    EXPECT_EQ(resolve(create(), ipv4(kSecond, 7174)), ENETUNREACH);
    control_.gsi = &gsi_;
}

TEST_F(CmInfinibandTest, StrangersMads) {
    subnet::MadPacket packet;
    packet.slid = 3;  // nobody's
    packet.dlid = 1;
    packet.src_qp = packet.dest_qp = 1;
    packet.mad[0] = std::byte{1};
    packet.mad[1] = std::byte{wire::kMadClassCommunication};
    const std::uint64_t before = service_->manager(*control_.devices[0]).stats().received;
    EXPECT_TRUE(service_->receive(*control_.devices[0], packet));
    packet.slid = 2;
    packet.pkey = 0x8123;
    EXPECT_TRUE(service_->receive(*control_.devices[0], packet));
    EXPECT_EQ(service_->manager(*control_.devices[0]).stats().received, before);
    packet.pkey = 0x7fff;
    EXPECT_TRUE(service_->receive(*control_.devices[0], packet));
    EXPECT_EQ(service_->manager(*control_.devices[0]).stats().received, before + 1);
    packet.mad[1] = std::byte{wire::kMadClassSubnetAdministration};
    EXPECT_FALSE(service_->receive(*control_.devices[0], packet)) << "somebody else's";
}

TEST_F(CmInfinibandTest, AGroupIsJoinedOnceForEachPort) {
    const std::uint32_t first = datagram_id();
    const std::uint32_t second = datagram_id();
    std::uint32_t groups[2]{};
    ASSERT_EQ(join(first, groups[0]), 0);
    EXPECT_EQ(method_sent(), wire::kMadSet);
    EXPECT_EQ(get_event(), EAGAIN);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(next_event(), kMulticastJoin);
    const auto event = answer<rdma_ucm_event_resp>();
    EXPECT_EQ(event.id, groups[0]);
    EXPECT_EQ(event.param.ud.qp_num, kMulticastQp);
    EXPECT_EQ(event.param.ud.qkey, kUdpQkey);
    EXPECT_EQ(event.param.ud.ah_attr.dlid, kMlid);
    EXPECT_EQ(event.param.ud.ah_attr.sl, 5);
    EXPECT_EQ(event.param.ud.ah_attr.is_global, 1);
    // ff12:4001:PKEY::0f01:0203
    EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[1], 0x12);
    EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[2], 0x40);
    EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[3], 0x01);
    EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[4], 0xff);
    EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[12], 0x0f);
    const std::size_t before = gsi_.sent.size();
    ASSERT_EQ(join(second, groups[1]), 0);
    ASSERT_EQ(next_event(), kMulticastJoin) << "the port is a member already";
    EXPECT_EQ(answer<rdma_ucm_event_resp>().param.ud.ah_attr.dlid, kMlid);
    ASSERT_EQ(leave(groups[0]), 0);
    EXPECT_EQ(gsi_.sent.size(), before) << "the other one is still there";
    ASSERT_EQ(destroy(second), 0);
    ASSERT_EQ(gsi_.sent.size(), before + 1);
    EXPECT_EQ(method_sent(), wire::kMadDelete);
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(memberships(), 0U);
}

TEST_F(CmInfinibandTest, MembershipsThatAreRefused) {
    const std::uint32_t id = datagram_id();
    std::uint32_t group = 0;
    ASSERT_EQ(join(id, group), 0);
    ASSERT_TRUE(answer_join(subnet::kSaRequestInvalid));
    ASSERT_EQ(next_event(), kMulticastError);
    EXPECT_EQ(event_error(), EINVAL);
    ASSERT_EQ(leave(group), 0);
    ASSERT_EQ(join(id, group), 0);
    ASSERT_TRUE(answer_join(0, 0x1234)) << "no group's LID";
    ASSERT_EQ(next_event(), kMulticastError);
    ASSERT_EQ(leave(group), 0);
    EXPECT_EQ(method_sent(), wire::kMadSet) << "there is nothing to leave";
    EXPECT_EQ(memberships(), 0U);
}

/// One request of a group is under way at a time, and what it leaves is what its users want.
TEST_F(CmInfinibandTest, WhoLeavesBeforeTheAnswerLeavesNothing) {
    const std::uint32_t id = datagram_id();
    std::uint32_t group = 0;
    ASSERT_EQ(join(id, group), 0);
    ASSERT_EQ(leave(group), 0);
    const std::size_t before = gsi_.sent.size();
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(gsi_.sent.size(), before + 1);
    EXPECT_EQ(method_sent(), wire::kMadDelete);
    EXPECT_EQ(get_event(), EAGAIN);

    ASSERT_EQ(join(id, group), 0);
    EXPECT_EQ(gsi_.sent.size(), before + 1) << "the Delete is not answered yet";
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(gsi_.sent.size(), before + 2);
    EXPECT_EQ(method_sent(), wire::kMadSet);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(next_event(), kMulticastJoin);

    std::uint32_t second = 0;
    ASSERT_EQ(join(id, second), 0);
    ASSERT_EQ(next_event(), kMulticastJoin);
    ASSERT_EQ(destroy(id), 0);
    EXPECT_EQ(method_sent(), wire::kMadDelete);
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(memberships(), 0U);
}

TEST_F(CmInfinibandTest, APortThatGoesDownIsNoMember) {
    const std::uint32_t id = datagram_id();
    std::uint32_t group = 0;
    ASSERT_EQ(join(id, group), 0);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(next_event(), kMulticastJoin);
    ASSERT_EQ(control_.observers.size(), 1U);
    control_.observers[0]->on_link(*control_.devices[1], false);
    EXPECT_EQ(get_event(), EAGAIN) << "another port";
    control_.observers[0]->on_subnet(*control_.devices[0], AsyncEventType::kSmChange);
    EXPECT_EQ(get_event(), EAGAIN);
    control_.observers[0]->on_link(*control_.devices[0], false);
    ASSERT_EQ(next_event(), kMulticastError);
    EXPECT_EQ(event_error(), ENETRESET);
    const std::size_t before = gsi_.sent.size();
    ASSERT_EQ(leave(group), 0);
    EXPECT_EQ(gsi_.sent.size(), before);

    ASSERT_EQ(join(id, group), 0);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(next_event(), kMulticastJoin);
    control_.observers[0]->on_subnet(*control_.devices[0], AsyncEventType::kClientReregister);
    ASSERT_EQ(next_event(), kMulticastError);
    EXPECT_EQ(memberships(), 0U);
}

/// What was under way when the port went down says nothing of what it is afterwards.
TEST_F(CmInfinibandTest, AnAnswerOfBeforeThePortWentDown) {
    const std::uint32_t id = datagram_id();
    std::uint32_t group = 0;
    ASSERT_EQ(join(id, group), 0);
    control_.observers[0]->on_link(*control_.devices[0], false);
    const std::size_t before = gsi_.sent.size();
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(get_event(), EAGAIN);
    ASSERT_EQ(gsi_.sent.size(), before + 1);
    EXPECT_EQ(method_sent(), wire::kMadSet);
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(next_event(), kMulticastJoin);
}

TEST_F(CmInfinibandTest, AnAdministratorThatDoesNotAnswerAJoin) {
    std::uint32_t group = 0;
    ASSERT_EQ(join(datagram_id(), group), 0);
    wait_for_event();
    ASSERT_EQ(next_event(), kMulticastError);
    EXPECT_EQ(event_error(), ETIMEDOUT);
    EXPECT_EQ(gsi_.sent.size(), subnet::SaRequests::kTries);
    EXPECT_EQ(memberships(), 0U);
}

TEST_F(CmInfinibandTest, AsManyGroupsAsThereAre) {
    control_.limits.per_uid[Resource::kSubnetGroups] = SubnetMemberships::kMaxGroups + 1;
    const std::uint32_t id = datagram_id();
    rdma_ucm_join_ip_mcast command{};
    command.id = id;
    for (std::uint32_t i = 0; i <= SubnetMemberships::kMaxGroups; ++i) {
        command.addr = ipv4(kGroup + i, 0);
        ASSERT_EQ(give(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command),
                  i < SubnetMemberships::kMaxGroups ? 0 : ENOMEM)
            << i;
    }
    for (int error = -1; error != 0;) {
        error = destroy(id);
        ASSERT_TRUE(error == 0 || error == kUnfinished);
    }
}

TEST_F(CmInfinibandTest, AUserHasSoManyMemberships) {
    control_.limits.per_uid[Resource::kCmGroups] = 2;
    const std::uint32_t id = datagram_id();
    std::uint32_t group = 0;
    ASSERT_EQ(join(id, group), 0);
    ASSERT_EQ(join(id, group), 0);
    std::uint32_t third = 0;
    EXPECT_EQ(join(id, third), ENOMEM);
    EXPECT_EQ(control_.user(1000).count(Resource::kCmGroups), 2U);
    ASSERT_EQ(leave(group), 0);
    EXPECT_EQ(join(id, third), 0) << "he has left one";
}

/// A subnet has 1,024 groups for all users.
TEST_F(CmInfinibandTest, AUserHasSoManyGroups) {
    control_.limits.per_uid[Resource::kSubnetGroups] = 2;
    const std::uint32_t id = datagram_id();
    const auto join_one = [&](std::uint32_t number, std::uint32_t& group) {
        rdma_ucm_join_ip_mcast command{};
        command.id = id;
        command.addr = ipv4(kGroup + number, 0);
        const int error = give(RDMA_USER_CM_CMD_JOIN_IP_MCAST, command);
        group = answer<rdma_ucm_create_id_resp>().id;
        return error;
    };
    std::uint32_t groups[4]{};
    ASSERT_EQ(join_one(0, groups[0]), 0);
    ASSERT_EQ(join_one(1, groups[1]), 0);
    EXPECT_EQ(join_one(0, groups[2]), 0) << "he is in it";
    EXPECT_EQ(join_one(2, groups[3]), ENOMEM);
    // Who leaves before the answer has the group until the port is in it no more.
    ASSERT_EQ(leave(groups[1]), 0);
    EXPECT_EQ(join_one(2, groups[3]), ENOMEM);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(method_sent(), wire::kMadDelete);
    EXPECT_EQ(join_one(2, groups[3]), ENOMEM);
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(join_one(2, groups[3]), 0);
    EXPECT_EQ(control_.user(1000).count(Resource::kSubnetGroups), 2U);
    // One that goes down with the port counts no more.
    ASSERT_TRUE(answer_join());
    control_.observers[0]->on_link(*control_.devices[0], false);
    EXPECT_EQ(control_.user(1000).count(Resource::kSubnetGroups), 1U);
}

TEST_F(CmInfinibandTest, AGroupOfTwoUsersIsEachUsers) {
    auto other = std::make_unique<CmClient>(*service_, owner_, control_.user(1001));
    std::uint32_t channel = 0;
    std::uint32_t taken = 0;
    UniqueFd reader;
    ASSERT_EQ(other->open_channel(channel, reader), 0);
    const auto change_over = [&] {
        std::swap(client_, other);
        std::swap(channel_, channel);
        std::swap(reader_, reader);
        std::swap(taken_, taken);
    };
    const auto counts = [&] {
        return std::pair(control_.user(1000).count(Resource::kSubnetGroups),
                         control_.user(1001).count(Resource::kSubnetGroups));
    };
    std::uint32_t first = 0;
    std::uint32_t second = 0;
    ASSERT_EQ(join(datagram_id(), first), 0);
    ASSERT_TRUE(answer_join());
    change_over();
    ASSERT_EQ(join(datagram_id(), second), 0);
    EXPECT_EQ(counts(), std::pair(1U, 1U));
    change_over();
    ASSERT_EQ(leave(first), 0);
    EXPECT_EQ(counts(), std::pair(0U, 1U)) << "the other one is still there";
    change_over();
    ASSERT_EQ(leave(second), 0);
    change_over();
    EXPECT_EQ(counts(), std::pair(0U, 1U)) << "until the port has left";
    // Who comes before that takes it over.
    ASSERT_EQ(join(datagram_id(), first), 0);
    EXPECT_EQ(counts(), std::pair(1U, 0U));
    ASSERT_TRUE(answer_join());
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(counts(), std::pair(1U, 0U));
    ASSERT_EQ(leave(first), 0);
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(counts(), std::pair(0U, 0U));
}

/// Limited members of a partition are in the groups of its full members.
TEST_F(CmInfinibandTest, LimitedMembers) {
    devices_[0]->pkeys.entries = {0x8005, 0x7fff};
    const std::uint32_t id = resolved();
    ASSERT_EQ(ask_route(id), 0);
    ASSERT_TRUE(answer_path([](mad::PathRecord& path) { path.pkey = 0x7fff; }));
    ASSERT_EQ(next_event(), kRouteResolved);
    rdma_ucm_init_qp_attr command{};
    command.id = id;
    command.qp_state = 1;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_INIT_QP_ATTR, command), 0);
    EXPECT_EQ(answer<ib_uverbs_qp_attr>().pkey_index, 1);
    devices_[0]->pkeys.entries = {0x7fff};
    std::uint32_t group = 0;
    ASSERT_EQ(join(datagram_id(), group), 0);
    subnet::MadPacket packet = gsi_.sent.back();
    const auto record =
        subnet::MadRef(packet.mad).read<mad::McMemberRecord>(mad::kMcMemberRecordTable, mad::kSaDataOffset);
    EXPECT_EQ(record.pkey, 0xffff);
    EXPECT_EQ(record.mgid[4], 0xff);
    devices_[1]->pkeys.entries = {0x8009};
    EXPECT_EQ(resolve(create(), ipv4(kSecond, 7174), ipv4(kFirst, 0)), EHOSTUNREACH)
        << "no partition in common";
}

TEST_F(CmInfinibandTest, TheTypeOfServiceIsThePaths) {
    const std::uint32_t id = create();
    ASSERT_EQ(option(id, RDMA_OPTION_ID_TOS, 0x48, 1), 0);
    ASSERT_EQ(resolve(id, ipv4(kSecond, 7174)), 0);
    ASSERT_EQ(next_event(), kAddrResolved);
    ASSERT_EQ(ask_route(id), 0);
    subnet::MadPacket packet = gsi_.sent.back();
    const subnet::MadRef ref(packet.mad);
    EXPECT_EQ(ref.read<mad::PathRecord>(mad::kPathRecordTable, mad::kSaDataOffset).qos_class, 0x48);
    EXPECT_NE(subnet::load_be64(ref.at(48)) & subnet::path_component::kQosClass, 0U);
}

TEST_F(CmInfinibandTest, AGroupsGid) {
    const wire::Gid ipv6 = {0xff, 0x15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    const wire::Gid expected = {0xff, 0x12, 0x60, 0x01, 0x80, 0x02, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    EXPECT_EQ(multicast_gid(ipv6, 0x8002, RDMA_PS_UDP), expected);
    const wire::Gid assigned = {0xff, 0x12, 0xa0, 0x1b, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    EXPECT_EQ(multicast_gid(assigned, 0x8002, RDMA_PS_UDP), assigned);
    EXPECT_EQ(multicast_gid(ipv6, 0x8002, RDMA_PS_IB)[3], 0x1b);
}

}  // namespace
}  // namespace urnic::daemon
