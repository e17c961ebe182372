// librdmacm's commands with addresses of AF_IB: what they stand for, and who is reached by them.
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/daemon/cm/cm_gid_fixture.h"

namespace urnic::daemon {
namespace {

TEST_F(CmGidTest, LibrdmacmsQuestion) {
    const std::uint32_t id = create(RDMA_PS_IB);
    ASSERT_EQ(bind_long(id, gid_address(kAnyGid, kTcpService, kSaidSpace, 0)), 0);
    const auto bound = addresses(id);
    EXPECT_EQ(bound.node_guid, 0U);
    EXPECT_EQ(bound.dst_size, 0);
    ASSERT_EQ(bound.src_size, sizeof(SockaddrIb));
    const SockaddrIb own = ib(bound.src_addr);
    EXPECT_EQ(own.family, AF_IB);
    EXPECT_EQ(own.service_mask, kSaidWhole);
    EXPECT_EQ(be64toh(own.service_id) & kSaidSpace, kTcpService);
    EXPECT_GE(be64toh(own.service_id) & 0xffffU, PortTable::kFirstFree);
    EXPECT_EQ(query(id, RDMA_USER_CM_QUERY_GID), 0);
    EXPECT_EQ(query(id, RDMA_USER_CM_QUERY_PATH, 8), 0);
    EXPECT_EQ(answer<std::uint64_t>(), 0U) << "no path";
}

TEST_F(CmGidTest, ServiceIdsAreThoseOfThePortSpace) {
    const std::vector<
        std::tuple<const char*, std::uint16_t, std::uint64_t, std::uint64_t, int, std::uint64_t>>
        cases{
            {"its own", RDMA_PS_TCP, kTcpService | 7001, kSaidWhole, 0, kTcpService | 7001},
            {"nothing said", RDMA_PS_UDP, 7002, 0xffff, 0, kUdpService | 7002},
            {"nothing said, any", RDMA_PS_IB, 7003, 0xffff, 0, kIbService | 7003},
            {"of another space", RDMA_PS_IB, kUdpService | 7004, kSaidWhole, 0, kUdpService | 7004},
            {"not of its space", RDMA_PS_TCP, kUdpService | 7005, kSaidWhole, EPROTONOSUPPORT, 0},
            {"of RDMA_PS_IB", RDMA_PS_UDP, kIbService | 7006, kSaidWhole, EPROTONOSUPPORT, 0},
            {"IPoIB has none", RDMA_PS_IPOIB, 7007, 0xffff, EPROTONOSUPPORT, 0},
            {"of no space", RDMA_PS_IB, 0x1000'0000'0000'0001, kSaidWhole, EPROTONOSUPPORT, 0},
            {"for root", RDMA_PS_TCP, kTcpService | 80, kSaidWhole, EACCES, 0},
        };
    for (const auto& [what, space, service, said, error, bound] : cases) {
        const std::uint32_t id = create(space);
        ASSERT_EQ(bind_long(id, gid_address(gid(0), service, said)), error) << what;
        if (error == 0) {
            EXPECT_EQ(be64toh(ib(addresses(id).src_addr).service_id), bound) << what;
        } else {
            EXPECT_EQ(bind_long(id, gid_address(gid(0))), space == RDMA_PS_IPOIB ? EPROTONOSUPPORT : 0)
                << what << ": it may be bound to another";
        }
    }
}

TEST_F(CmGidTest, PortsThatOthersHave) {
    ASSERT_EQ(bind_long(create(), gid_address(gid(0), kTcpService | 7001, kSaidWhole)), 0);
    EXPECT_EQ(bind_long(create(), gid_address(gid(0), kTcpService | 7001, kSaidWhole)), EADDRINUSE);
    EXPECT_EQ(bind_long(create(RDMA_PS_IB), gid_address(gid(0), kTcpService | 7001, kSaidWhole)), EADDRINUSE)
        << "the port is the service's, whoever asks";
    EXPECT_EQ(bind_long(create(), gid_address(gid(1), kTcpService | 7001, kSaidWhole)), 0);
    EXPECT_EQ(bind_long(create(), gid_address(kAnyGid, kTcpService | 7001, kSaidWhole)), EADDRNOTAVAIL);
    EXPECT_EQ(bind(create(), ipv4(0, 7001)), EADDRNOTAVAIL) << "0.0.0.0 is not of that family alone";
    EXPECT_EQ(bind(create(), ipv4(kFirst, 7001)), 0) << "another address";
    devices_[0]->ipoib_addresses[1] = gid(0);
    sockaddr_in6 same{};
    same.sin6_family = AF_INET6;
    same.sin6_port = htons(7001);
    std::memcpy(&same.sin6_addr, gid(0).data(), gid(0).size());
    EXPECT_EQ(bind(create(), same), 0) << "a GID is no IP address, if it looks like one";
    wire::Gid nobody = gid(0);
    nobody[15] = 99;
    EXPECT_EQ(bind_long(create(), gid_address(nobody)), ENODEV);
    devices_[1]->has_infiniband_link = false;
    EXPECT_EQ(bind_long(create(), gid_address(gid(1))), ENODEV) << "of RoCE";
    EXPECT_EQ(resolve_long(create(), gid_address(gid(1), 0, 0, 0x8123)), ENODEV);
    devices_[0]->has_infiniband_link = false;
    EXPECT_EQ(bind_long(create(), gid_address(gid(0))), EAFNOSUPPORT) << "librdmacm's question";
    EXPECT_EQ(resolve_long(create(), gid_address(gid(1))), EAFNOSUPPORT);
    devices_[0]->has_infiniband_link = devices_[1]->has_infiniband_link = true;
}

TEST_F(CmGidTest, AddressesHaveTheirFamilysLength) {
    const SockaddrIb good = gid_address(gid(0));
    const sockaddr_in6 ip = ipv4(kFirst, 0);
    static constexpr std::uint16_t kLengths[] = {0, 16, 28, 47, 49, 128, 65535};
    for (const std::uint16_t bytes : kLengths) {
        const std::string what = std::to_string(bytes);
        EXPECT_EQ(bind_long(create(), good, bytes), EINVAL) << what;
        EXPECT_EQ(resolve_long(create(), good, bytes), EINVAL) << what;
        EXPECT_EQ(join_long(datagram_id(), good, bytes), EINVAL) << what;
        if (bytes != 0) {
            EXPECT_EQ(resolve_long(create(), good, sizeof good, &good, bytes), EINVAL) << what;
        }
    }
    EXPECT_EQ(bind_long(create(), ip), EINVAL) << "28 bytes of IPv4";
    EXPECT_EQ(bind_long(create(), ip, sizeof(sockaddr_in)), 0);
    SockaddrIb strange = good;
    static constexpr sa_family_t kFamilies[] = {0, 1, 26, 28, 65535};
    for (const sa_family_t family : kFamilies) {
        strange.family = family;
        EXPECT_EQ(bind_long(create(), strange), EINVAL) << family;
        EXPECT_EQ(resolve_long(create(), strange), EINVAL) << family;
    }
    rdma_ucm_bind bind_reserved{};
    bind_reserved.id = create();
    bind_reserved.addr_size = sizeof good;
    bind_reserved.reserved = 1;
    std::memcpy(&bind_reserved.addr, &good, sizeof good);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_BIND, bind_reserved), EINVAL);
    rdma_ucm_resolve_addr resolve_reserved{};
    resolve_reserved.id = create();
    resolve_reserved.dst_size = sizeof good;
    resolve_reserved.reserved = 1;
    std::memcpy(&resolve_reserved.dst_addr, &good, sizeof good);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ADDR, resolve_reserved), EINVAL);
    EXPECT_EQ(bind_long(9999, good), ENOENT);
    EXPECT_EQ(resolve_long(9999, good), ENOENT);
    EXPECT_EQ(resolve_long(create(), ip, sizeof(sockaddr_in), &good), EINVAL) << "two families";
}

TEST_F(CmGidTest, APathToAGid) {
    const std::uint32_t id = resolved_gid();
    const auto before = addresses(id);
    EXPECT_EQ(before.node_guid, devices_[0]->node_guid) << "not the destination's own";
    EXPECT_EQ(gid_of(ib(before.src_addr)), gid(0));
    EXPECT_EQ(gid_of(ib(before.dst_addr)), gid(1));
    EXPECT_EQ(ntohs(before.pkey), 0xffff);
    EXPECT_EQ(query(id, RDMA_USER_CM_QUERY_PATH), 0);
    EXPECT_EQ(reply_.out_bytes, 8U);
    ASSERT_EQ(ask_route(id), 0);
    subnet::MadPacket asked = gsi_.sent.back();
    const auto wanted =
        subnet::MadRef(asked.mad).read<mad::PathRecord>(mad::kPathRecordTable, mad::kSaDataOffset);
    EXPECT_EQ(wanted.dgid, gid(1));
    EXPECT_EQ(wanted.sgid, gid(0));
    EXPECT_EQ(wanted.tclass, 0);
    ASSERT_TRUE(answer_path());
    ASSERT_EQ(next_event(), kRouteResolved);

    EXPECT_EQ(query(id, RDMA_USER_CM_QUERY_PATH, 79), ENOSPC);
    ASSERT_EQ(query(id, RDMA_USER_CM_QUERY_PATH), 0);
    struct {
        std::uint32_t num_paths;
        std::uint32_t reserved;
        ib_path_rec_data path;
    } told{};
    ASSERT_EQ(reply_.out_bytes, sizeof told);
    std::memcpy(&told, reply_.body, sizeof told);
    EXPECT_EQ(told.num_paths, 1U);
    EXPECT_EQ(told.path.flags, 0x2bU);
    mad::PathRecord path;
    wire::read_fields(mad::kPathRecordTable, std::as_bytes(std::span(told.path.path_rec)).data(), &path);
    EXPECT_EQ(path.dlid, 2);
    EXPECT_EQ(path.slid, 1);
    EXPECT_EQ(path.dgid, gid(1));
    EXPECT_EQ(path.sl, 5);
    EXPECT_EQ(path.mtu, 4);
    EXPECT_TRUE(path.reversible);
    EXPECT_EQ(query(id, 3), ENOSYS);
    EXPECT_EQ(query(9999, RDMA_USER_CM_QUERY_ADDR), ENOENT);
    EXPECT_EQ(query(id, RDMA_USER_CM_QUERY_ADDR, 100), ENOSPC);
}

/// AF_IB asks for services of others, too, and has no IP CM header in front of its private data.
TEST_F(CmGidTest, ARequestNamesTheServiceAsItWasSaid) {
    for (const std::uint64_t service : {kTcpService | 7174, std::uint64_t{0x1000'0000'0000'0001}}) {
        const std::uint32_t id = resolved_gid(service);
        ASSERT_EQ(ask_route(id), 0);
        ASSERT_TRUE(answer_path());
        ASSERT_EQ(next_event(), kRouteResolved);
        rdma_ucm_connect command{};
        command.id = id;
        command.conn_param.valid = 1;
        command.conn_param.qp_num = 17;
        command.conn_param.private_data_len = kPrivateData.size();
        std::copy(kPrivateData.begin(), kPrivateData.end(), command.conn_param.private_data);
        ASSERT_EQ(give(RDMA_USER_CM_CMD_CONNECT, command), 0);
        const wire::cm::Req req = req_sent();
        EXPECT_EQ(req.service_id, service);
        EXPECT_TRUE(std::equal(kPrivateData.begin(), kPrivateData.end(), req.private_data.begin()));
        EXPECT_EQ(req.primary.remote_gid, gid(1));
        EXPECT_EQ(req.primary.remote_lid, 2);
        ASSERT_EQ(destroy(id), 0);
    }
}

TEST_F(CmGidTest, ToItself) {
    wire::Gid loopback{};
    loopback[15] = 1;
    const std::uint32_t id = create();
    ASSERT_EQ(resolve_long(id, gid_address(loopback, kTcpService | 7174, kSaidWhole, 0)), 0);
    ASSERT_EQ(next_event(), kAddrResolved);
    EXPECT_EQ(gid_of(ib(addresses(id, RDMA_USER_CM_QUERY_GID).dst_addr)), gid(0));
    const std::uint32_t bound = create();
    ASSERT_EQ(bind_long(bound, gid_address(gid(1), kTcpService, kSaidSpace)), 0);
    ASSERT_EQ(resolve_long(bound, gid_address(kAnyGid, kTcpService | 7174, kSaidWhole)), 0);
    EXPECT_EQ(gid_of(ib(addresses(bound).dst_addr)), gid(1));
}

TEST_F(CmGidTest, Partitions) {
    devices_[0]->pkeys.entries = {0xffff, 0x8005};
    const std::uint32_t id = create();
    ASSERT_EQ(resolve_long(id, gid_address(gid(1), kTcpService | 7174, kSaidWhole, 0x8005)), 0);
    ASSERT_EQ(next_event(), kAddrResolved);
    EXPECT_EQ(ntohs(addresses(id).pkey), 0x8005);
    EXPECT_EQ(resolve_long(create(), gid_address(gid(1), 0, 0, 0x8006)), ENODEV);
    EXPECT_EQ(resolve_long(create(), gid_address(gid(1), 0, 0, 0)), ENODEV) << "0 is no partition";
    const std::uint32_t bound = create();
    ASSERT_EQ(bind_long(bound, gid_address(gid(0), 0, 0, 0x8006)), 0) << "who listens needs none";
    EXPECT_EQ(resolve_long(bound, gid_address(gid(1))), ENODEV) << "the source's counts";
}

TEST_F(CmGidTest, TheFlowInformationHasTheTrafficClass) {
    SockaddrIb source = gid_address(gid(0), kTcpService, kSaidSpace);
    source.flow_info = htonl(0x0480'0000);
    const std::uint32_t id = create();
    ASSERT_EQ(resolve_long(id, gid_address(gid(1), kTcpService | 7174, kSaidWhole), 48, &source), 0);
    ASSERT_EQ(next_event(), kAddrResolved);
    ASSERT_EQ(ask_route(id), 0);
    subnet::MadPacket asked = gsi_.sent.back();
    const subnet::MadRef ref(asked.mad);
    EXPECT_EQ(ref.read<mad::PathRecord>(mad::kPathRecordTable, mad::kSaDataOffset).tclass, 0x48);
    EXPECT_NE(subnet::load_be64(ref.at(48)) & subnet::path_component::kTclass, 0U);
}

TEST_F(CmGidTest, WhereTheGidIsDecidesTheSource) {
    const std::uint32_t back = create();
    ASSERT_EQ(resolve_long(back, gid_address(gid(0))), 0);
    ASSERT_EQ(next_event(), kAddrResolved);
    EXPECT_EQ(addresses(back).node_guid, devices_[1]->node_guid) << "its own port is taken last";
    wire::Gid stranger = gid(0);
    stranger[15] = 99;
    const std::uint32_t near = create();
    ASSERT_EQ(resolve_long(near, gid_address(stranger)), 0) << "its prefix is ours: the administrator knows";
    ASSERT_EQ(next_event(), kAddrResolved);
    stranger[7] = 1;
    EXPECT_EQ(resolve_long(create(), gid_address(stranger)), ENODEV) << "of another subnet";
    gsi_.is_one_subnet = false;
    const std::uint32_t own = create();
    ASSERT_EQ(resolve_long(own, gid_address(gid(1))), 0);
    EXPECT_EQ(addresses(own).node_guid, devices_[1]->node_guid) << "nobody else is on its subnet";
    gsi_.is_one_subnet = true;
}

TEST_F(CmGidTest, RequestsByGid) {
    const std::uint32_t listener = create();
    ASSERT_EQ(bind_long(listener, gid_address(gid(0), kTcpService | 7174, kSaidWhole)), 0);
    ASSERT_EQ(listen(listener), 0);
    request_over_infiniband(kTcpService | 7174, true);
    ASSERT_EQ(next_event(), kConnectRequest);
    const auto event = answer<rdma_ucm_event_resp>();
    EXPECT_TRUE(std::equal(kPrivateData.begin(), kPrivateData.end(), event.param.conn.private_data));
    const auto known = addresses(event.id);
    EXPECT_EQ(gid_of(ib(known.src_addr)), gid(0));
    EXPECT_EQ(be64toh(ib(known.src_addr).service_id), kTcpService | 7174);
    EXPECT_EQ(gid_of(ib(known.dst_addr)), gid(1));
    EXPECT_EQ(query(event.id, RDMA_USER_CM_QUERY_PATH), 0);
    EXPECT_EQ(reply_.out_bytes, 80U);

    request_over_infiniband(kTcpService | 7174, false, 18);
    EXPECT_EQ(get_event(), EAGAIN) << "by IP addresses, where nobody listens";
    EXPECT_EQ(rej_sent().reason, cm::kRejInvalidServiceId);
    request_over_infiniband(kTcpService | 7175, true, 19);
    EXPECT_EQ(rej_sent().reason, cm::kRejInvalidServiceId);
}

TEST_F(CmGidTest, ListenersOfIpAddressesTakeNone) {
    const std::uint32_t listener = create();
    ASSERT_EQ(bind(listener, ipv4(0, 7174)), 0);
    ASSERT_EQ(listen(listener), 0);
    request_over_infiniband(kTcpService | 7174, true);
    EXPECT_EQ(get_event(), EAGAIN);
    EXPECT_EQ(rej_sent().reason, cm::kRejInvalidServiceId);
    request_over_infiniband(kTcpService | 7174, false, 18);
    EXPECT_EQ(next_event(), kConnectRequest);
}

TEST_F(CmGidTest, AWildcardListensAtPortsOfInfinibandAlone) {
    devices_[1]->has_infiniband_link = false;
    const std::uint32_t listener = create();
    ASSERT_EQ(bind_long(listener, gid_address(kAnyGid, kTcpService | 7174, kSaidWhole)), 0);
    ASSERT_EQ(listen(listener), 0);
    EXPECT_EQ(service_->manager(*control_.devices[0]).listeners(), 1U);
    EXPECT_EQ(service_->manager(*control_.devices[1]).listeners(), 0U);
    devices_[1]->has_infiniband_link = true;
    request_over_infiniband(kTcpService | 7174, true);
    EXPECT_EQ(next_event(), kConnectRequest);
}

}  // namespace
}  // namespace urnic::daemon
