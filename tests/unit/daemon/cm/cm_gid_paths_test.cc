// Paths that a program gives, groups by their GIDs, and the commands that come for all families where
// librdmacm has found that AF_IB is taken.
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/daemon/cm/cm_gid_fixture.h"

namespace urnic::daemon {
namespace {

TEST_F(CmGidTest, APathThatAProgramGives) {
    const std::uint32_t id = resolved_gid();
    ASSERT_EQ(set_paths(id, {record_of(good_path(), IB_PATH_GMP), record_of(good_path())}), 0)
        << "the one for both directions counts";
    ASSERT_EQ(next_event(), kRouteResolved);
    EXPECT_TRUE(gsi_.sent.empty()) << "nobody was asked";
    ASSERT_EQ(connect(id), 0);
    EXPECT_EQ(gsi_.sent.back().dlid, 2);
    EXPECT_EQ(gsi_.sent.back().sl, 6);
    EXPECT_EQ(set_paths(id, {record_of(good_path())}), EINVAL) << "it has one";
    const std::uint32_t by_ip = resolved();
    EXPECT_EQ(set_paths(by_ip, {record_of(good_path())}), 0);
}

TEST_F(CmGidTest, PathsThatAProgramMayNotGive) {
    const std::uint32_t id = resolved_gid();
    EXPECT_EQ(set_paths(id, {}), EINVAL);
    EXPECT_EQ(set_paths(id, {record_of(good_path(), IB_PATH_GMP)}), EINVAL);
    EXPECT_EQ(set_paths(id, {record_of(good_path())}, 1), EINVAL) << "one byte more";
    EXPECT_EQ(set_paths(create(), {record_of(good_path())}), EINVAL) << "of no address yet";
    const std::vector<std::pair<const char*, std::function<void(mad::PathRecord&)>>> lies{
        {"to another port", [](mad::PathRecord& path) { path.dgid[15] ^= 1; }},
        {"from another port", [](mad::PathRecord& path) { path.sgid[15] ^= 2; }},
        {"from another's LID", [](mad::PathRecord& path) { path.slid = 2; }},
        {"to another's LID", [](mad::PathRecord& path) { path.dlid = 1; }},
        {"to a LID of nobody", [](mad::PathRecord& path) { path.dlid = 77; }},
        {"to a group", [](mad::PathRecord& path) { path.dlid = kMlid; }},
        {"one way", [](mad::PathRecord& path) { path.reversible = false; }},
        {"raw", [](mad::PathRecord& path) { path.raw_traffic = true; }},
        {"without an MTU", [](mad::PathRecord& path) { path.mtu = 0; }},
        {"with more than the port's MTU", [](mad::PathRecord& path) { path.mtu = 5; }},
        {"by a partition of others", [](mad::PathRecord& path) { path.pkey = 0x8123; }},
    };
    devices_[0]->mtu_bytes = 1024;
    for (const auto& [what, change] : lies) {
        mad::PathRecord path = good_path();
        change(path);
        EXPECT_EQ(set_paths(id, {record_of(path)}), EINVAL) << what;
        EXPECT_EQ(get_event(), EAGAIN) << what;
        EXPECT_EQ(connect(id), EINVAL) << what;
    }
    EXPECT_EQ(set_paths(id, {record_of(good_path())}), 0) << "it may still be given one";
}

TEST_F(CmGidTest, GroupsByGid) {
    const wire::Gid mgid = {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3};
    const std::uint32_t id = datagram_id();
    EXPECT_EQ(join_long(id, gid_address(gid(1))), EINVAL) << "no group's";
    EXPECT_EQ(join_long(id, gid_address(mgid), 48, RDMA_MC_JOIN_FLAG_RESERVED), EINVAL);
    ASSERT_EQ(join_long(id, gid_address(mgid), 48, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
    subnet::MadPacket asked = gsi_.sent.back();
    const auto record =
        subnet::MadRef(asked.mad).read<mad::McMemberRecord>(mad::kMcMemberRecordTable, mad::kSaDataOffset);
    EXPECT_EQ(record.mgid, mgid) << "as it was said";
    EXPECT_EQ(record.join_state, subnet::kSendOnlyFullMember);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(next_event(), kMulticastJoin);
    EXPECT_EQ(join_long(create(RDMA_PS_UDP), gid_address(mgid)), EINVAL) << "not bound";
}

/// A port is a member of each kind that its ids have asked for, once, and of no other.
class SendOnlyTest : public CmGidTest {
  protected:
    static constexpr wire::Gid kMgid{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3};
    using Sent = std::pair<std::uint8_t, std::uint8_t>;  // method, JoinState
    static constexpr Sent kJoinsToSend{wire::kMadSet, subnet::kSendOnlyFullMember};
    static constexpr Sent kJoinsFully{wire::kMadSet, subnet::kFullMember};
    static constexpr Sent kLeavesToSend{wire::kMadDelete, subnet::kSendOnlyFullMember};
    static constexpr Sent kLeavesFully{wire::kMadDelete, subnet::kFullMember};

    /// The group's handle; the port's membership is not answered yet.
    std::uint32_t join_as(std::uint16_t flags) {
        EXPECT_EQ(join_long(id_, gid_address(kMgid), sizeof(SockaddrIb), flags), 0);
        return answer<rdma_ucm_create_id_resp>().id;
    }
    std::uint32_t join_to_send() { return join_as(RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER); }
    std::uint32_t join_fully() { return join_as(RDMA_MC_JOIN_FLAG_FULLMEMBER); }
    /// The requests since the last look.
    std::vector<Sent> sent() {
        std::vector<Sent> requests;
        for (; looked_at_ < gsi_.sent.size(); ++looked_at_) {
            const subnet::MadRef ref(gsi_.sent[looked_at_].mad);
            requests.emplace_back(
                ref.method(),
                ref.read<mad::McMemberRecord>(mad::kMcMemberRecordTable, mad::kSaDataOffset).join_state);
        }
        return requests;
    }
    /// The last request is answered, and `group` hears of it.
    void expect_told(std::uint32_t group, std::uint32_t event) {
        ASSERT_EQ(next_event(), event);
        EXPECT_EQ(answer<rdma_ucm_event_resp>().id, group);
    }

    std::uint32_t id_ = 0;
    std::size_t looked_at_ = 0;

  private:
    void SetUp() override {
        CmGidTest::SetUp();
        id_ = datagram_id();
        looked_at_ = gsi_.sent.size();
    }
};

TEST_F(SendOnlyTest, EachKindIsJoinedAndLeftOnce) {
    const std::uint32_t sender = join_to_send();
    EXPECT_EQ(sent(), std::vector{kJoinsToSend});
    ASSERT_TRUE(answer_join());
    expect_told(sender, kMulticastJoin);
    const std::uint32_t second = join_to_send();
    expect_told(second, kMulticastJoin);
    const std::uint32_t member = join_fully();
    EXPECT_EQ(sent(), std::vector{kJoinsFully}) << "to send alone is not enough";
    EXPECT_EQ(get_event(), EAGAIN);
    ASSERT_TRUE(answer_join());
    expect_told(member, kMulticastJoin);
    EXPECT_EQ(get_event(), EAGAIN) << "who is a member already hears nothing";
    EXPECT_EQ(memberships(), 1U);
    ASSERT_EQ(leave(sender), 0);
    EXPECT_EQ(sent(), std::vector<Sent>{}) << "another one sends";
    ASSERT_EQ(leave(second), 0);
    EXPECT_EQ(sent(), std::vector{kLeavesToSend});
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(memberships(), 1U);
    ASSERT_EQ(leave(member), 0);
    EXPECT_EQ(sent(), std::vector{kLeavesFully});
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(memberships(), 0U);
}

TEST_F(SendOnlyTest, WhatComesWhileARequestIsUnderWay) {
    const std::uint32_t sender = join_to_send();
    const std::uint32_t member = join_fully();
    EXPECT_EQ(sent(), std::vector{kJoinsToSend}) << "one at a time";
    ASSERT_TRUE(answer_join());
    expect_told(sender, kMulticastJoin);
    EXPECT_EQ(sent(), std::vector{kJoinsFully});
    ASSERT_EQ(leave(sender), 0);
    EXPECT_EQ(sent(), std::vector<Sent>{});
    ASSERT_TRUE(answer_join());
    expect_told(member, kMulticastJoin);
    EXPECT_EQ(sent(), std::vector{kLeavesToSend});
    // It is a full member meanwhile.
    const std::uint32_t other = join_fully();
    expect_told(other, kMulticastJoin);
    const std::uint32_t again = join_to_send();
    EXPECT_EQ(get_event(), EAGAIN) << "the Delete is not answered yet";
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(sent(), std::vector{kJoinsToSend});
    ASSERT_TRUE(answer_join());
    expect_told(again, kMulticastJoin);
}

TEST_F(SendOnlyTest, OneKindThatIsRefusedLeavesTheOther) {
    const std::uint32_t member = join_fully();
    ASSERT_TRUE(answer_join());
    expect_told(member, kMulticastJoin);
    const std::uint32_t sender = join_to_send();
    ASSERT_TRUE(answer_join(subnet::kSaRequestInvalid)) << "an administrator that does not know this kind";
    expect_told(sender, kMulticastError);
    EXPECT_EQ(event_error(), EINVAL);
    EXPECT_EQ(get_event(), EAGAIN) << "the other one stays";
    EXPECT_EQ(memberships(), 1U);
    ASSERT_EQ(leave(sender), 0);
    EXPECT_EQ(sent(), (std::vector{kJoinsFully, kJoinsToSend})) << "there is nothing to leave";
    ASSERT_EQ(leave(member), 0);
    EXPECT_EQ(sent(), std::vector{kLeavesFully});
}

TEST_F(SendOnlyTest, APortThatGoesDownIsOfNoKind) {
    const std::uint32_t sender = join_to_send();
    ASSERT_TRUE(answer_join());
    expect_told(sender, kMulticastJoin);
    const std::uint32_t member = join_fully();
    control_.observers[0]->on_link(*control_.devices[0], false);
    expect_told(sender, kMulticastError);
    EXPECT_EQ(event_error(), ENETRESET);
    EXPECT_EQ(get_event(), EAGAIN) << "the other one is not answered yet";
    ASSERT_TRUE(answer_join());
    EXPECT_EQ(get_event(), EAGAIN) << "an answer of before";
    EXPECT_EQ(sent(), (std::vector{kJoinsToSend, kJoinsFully, kJoinsFully}));
    ASSERT_TRUE(answer_join());
    expect_told(member, kMulticastJoin);
    ASSERT_EQ(leave(sender), 0);
    ASSERT_EQ(leave(member), 0);
    EXPECT_EQ(sent(), std::vector{kLeavesFully});
}

/// Once librdmacm has found that AF_IB is served it speaks so of IP addresses, too.
TEST_F(CmGidTest, IpAddressesInTheLongForm) {
    sockaddr_in to{};
    const sockaddr_in6 whole = ipv4(kSecond, 7174);
    std::memcpy(&to, &whole, sizeof to);
    const std::uint32_t id = create();
    ASSERT_EQ(resolve_long(id, to), 0);
    ASSERT_EQ(next_event(), kAddrResolved);
    const auto told = addresses(id);
    ASSERT_EQ(told.src_size, sizeof(sockaddr_in));
    ASSERT_EQ(told.dst_size, sizeof(sockaddr_in));
    EXPECT_EQ(std::memcmp(&told.dst_addr, &to, sizeof to), 0);
    EXPECT_EQ(told.node_guid, devices_[0]->node_guid);
    EXPECT_EQ(told.port_num, 1);
    const auto gids = addresses(id, RDMA_USER_CM_QUERY_GID);
    EXPECT_EQ(gid_of(ib(gids.src_addr)), gid(0));
    EXPECT_EQ(gid_of(ib(gids.dst_addr)), gid(1));
    EXPECT_EQ(be64toh(ib(gids.dst_addr).service_id), kTcpService | 7174);
}

TEST_F(CmClientTest, TheLongFormOverRoce) {
    const std::uint32_t id = create();
    rdma_ucm_resolve_addr command{};
    const sockaddr_in6 to = ipv4(kSecond, 7174);
    command.id = id;
    command.dst_size = sizeof(sockaddr_in);
    std::memcpy(&command.dst_addr, &to, sizeof(sockaddr_in));
    ASSERT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ADDR, command), 0);
    ASSERT_EQ(get_event(), 0);
    struct {
        rdma_ucm_set_option head;
        ib_path_rec_data record;
    } option{};
    option.head = {0, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, sizeof option.record};
    option.record.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_SET_OPTION, option), EINVAL) << "there is no administrator who knows it";
    ASSERT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 0}), 0);
    rdma_ucm_query query{};
    query.id = id;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
    const auto route = answer<rdma_ucm_query_route_resp>();
    query.option = RDMA_USER_CM_QUERY_ADDR;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY, query), 0);
    const auto told = answer<rdma_ucm_query_addr_resp>();
    EXPECT_EQ(told.node_guid, route.node_guid);
    EXPECT_EQ(told.pkey, route.ib_route[0].pkey);
    EXPECT_EQ(std::memcmp(&told.dst_addr, &route.dst_addr, sizeof(sockaddr_in)), 0);
    query.option = RDMA_USER_CM_QUERY_PATH;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY, query), 0);
    ASSERT_EQ(reply_.out_bytes, 80U);
    wire::mad::PathRecord path;
    wire::read_fields(wire::mad::kPathRecordTable, std::as_bytes(std::span(reply_.body)).data() + 16, &path);
    EXPECT_TRUE(std::equal(path.dgid.begin(), path.dgid.end(), route.ib_route[0].dgid));
    EXPECT_EQ(path.mtu, route.ib_route[0].mtu);
    EXPECT_EQ(path.rate, route.ib_route[0].rate);
    EXPECT_EQ(path.packet_life_time, route.ib_route[0].packet_life_time);
}

}  // namespace
}  // namespace urnic::daemon
