// Paths that a program gives, groups by their GIDs, and the commands that come for all families where
// librdmacm has found that AF_IB is taken.
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
    EXPECT_EQ(record.join_state, 1);
    ASSERT_TRUE(answer_join());
    ASSERT_EQ(next_event(), kMulticastJoin);
    EXPECT_EQ(join_long(create(RDMA_PS_UDP), gid_address(mgid)), EINVAL) << "not bound";
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
