// Over InfiniBand: paths are LIDs, and an IP address is no GID.
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

constexpr std::uint16_t kOurLid = 4;
constexpr std::uint16_t kPeerLid = 0x21;
constexpr wire::Gid kOurIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 11};
constexpr wire::Gid kPeerIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 12};
constexpr wire::Gid kOurIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11};
constexpr wire::Gid kPeerIpv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12};

class CmInfiniBand : public CmScript {
  protected:
    CmInfiniBand() {
        Config config = CmScript::config();
        config.ip_owners = IpOwners(
            {{kOurIpv4, kOurGid}, {kPeerIpv4, kPeerGid}, {kOurIpv6, kOurGid}, {kPeerIpv6, kPeerGid}});
        begin(config);
    }
    [[nodiscard]] static Route route() {
        Route route;
        route.local_gid = kOurGid;
        route.remote_gid = kPeerGid;
        route.local_lid = kOurLid;
        route.remote_lid = kPeerLid;
        route.sl = 3;
        route.hop_limit = 0;
        return route;
    }
    [[nodiscard]] static ReceivedMad from_peer(const msg::Message& message) {
        ReceivedMad received = mad(message);
        received.slid = kPeerLid;
        received.sl = 3;
        return received;
    }
    /// A request of the RDMA IP CM service, from one address to another.
    [[nodiscard]] static msg::Req request(const wire::Gid& from, const wire::Gid& to) {
        msg::Req req = CmScript::req();
        req.service_id = kService;
        req.primary.local_gid = kPeerGid;
        req.primary.remote_gid = kOurGid;
        req.primary.local_lid = kPeerLid;
        req.primary.remote_lid = kOurLid;
        req.primary.subnet_local = true;
        req.primary.sl = 3;
        req.primary.packet_rate = 16;
        msg::IpCmHeader ip;
        ip.ip_version = wire::is_ipv4_mapped(from) ? 4 : 6;
        ip.src_port = 40'000;
        ip.src_address = without_prefix(from);
        ip.dst_address = without_prefix(to);
        put_ip(req.private_data, ip);
        return req;
    }
    /// IPv4 in the last four bytes.
    [[nodiscard]] static wire::Gid without_prefix(wire::Gid ip) {
        if (wire::is_ipv4_mapped(ip)) {
            ip[10] = ip[11] = 0;
        }
        return ip;
    }
    ListenerId listen_at(const wire::Gid& ip) {
        ListenParams params;
        params.service_id = kService;
        params.local_gid = ip;
        params.allow_sidr = true;
        const Manager::Listening result = manager().listen(params);
        EXPECT_EQ(result.status, Status::kOk);
        return result.id;
    }
    void expect_way_back() {
        EXPECT_EQ(last_route().remote_lid, kPeerLid);
        EXPECT_EQ(last_route().sl, 3);
    }
};

CM_SCRIPT_IN(CmInfiniBand, ActiveSide, "12.7",
             "a REQ has the path's LIDs and SL, and says that it stays in the subnet") {
    ConnectParams params = connect_params();
    params.route = route();
    params.packet_rate = 16;
    const Handle handle = connect(params);
    const auto sent = says<msg::Req>();
    EXPECT_EQ(sent.primary.local_lid, kOurLid);
    EXPECT_EQ(sent.primary.remote_lid, kPeerLid);
    EXPECT_EQ(sent.primary.sl, 3);
    EXPECT_EQ(sent.primary.packet_rate, 16);
    EXPECT_EQ(sent.primary.hop_limit, 0);
    EXPECT_TRUE(sent.primary.subnet_local);
    expect_way_back();
    hears(from_peer(rep(handle)));
    EXPECT_EQ(event(EventType::kReply).route.remote_lid, kPeerLid);
    ready(handle);
    says<msg::Rtu>();
    expect_way_back();
    destroy(handle);
    says<msg::Dreq>();
    expect_way_back();
    hears(from_peer(drep(handle)));
}

CM_SCRIPT_IN(CmInfiniBand, PassiveSide, "A11",
             "answers go to the LID that a REQ came from, on its SL; listeners are told apart by the IP "
             "address that it names") {
    const ListenerId ipv6 = listen_at(kOurIpv6);
    const ListenerId ipv4 = listen_at(kOurIpv4);
    hears(from_peer(request(kPeerIpv4, kOurIpv4)));
    const SeenEvent seen = event(EventType::kRequest);
    EXPECT_EQ(seen.listener, ipv4);
    EXPECT_EQ(seen.route.local_gid, kOurGid);
    EXPECT_EQ(seen.route.remote_gid, kPeerGid);
    EXPECT_EQ(seen.route.local_lid, kOurLid);
    EXPECT_EQ(seen.route.remote_lid, kPeerLid);
    EXPECT_EQ(seen.route.sl, 3);
    accept(seen.handle);
    says<msg::Rep>();
    expect_way_back();
    EXPECT_EQ(manager().info(seen.handle)->packet_rate, 16);
    hears(from_peer(rtu(seen.handle)));
    event(EventType::kEstablished);
    destroy(seen.handle);
    says<msg::Dreq>();
    hears(from_peer(drep(seen.handle)));

    msg::Req other = request(kPeerIpv6, kOurIpv6);
    other.local_comm_id = kPeerId + 1;
    other.local_qpn = kPeerQpn + 1;
    hears(from_peer(other));
    const SeenEvent second = event(EventType::kRequest);
    EXPECT_EQ(second.listener, ipv6);
    manager().discard(second.handle);
}

CM_SCRIPT_IN(
    CmInfiniBand, WhatDoesNotGoTogether, "12.6.7.2",
    "IP addresses of other ports 28, another LID than the packet's 5, addresses that nobody listens at 8") {
    listen_at(kOurIpv4);
    const auto refused = [&](std::uint16_t reason, const msg::Req& req) {
        hears(from_peer(req));
        EXPECT_EQ(says<msg::Rej>().reason, reason);
        expect_way_back();
        no_event();
        EXPECT_EQ(manager().size(), 0U);
    };
    refused(kRejConsumer, request(kOurIpv4, kOurIpv4));
    refused(kRejConsumer, request(kPeerIpv4, kPeerIpv4));
    wire::Gid nobody = kOurIpv4;
    nobody[15] = 99;
    refused(kRejConsumer, request(kPeerIpv4, nobody));
    refused(kRejConsumer, request(nobody, kOurIpv4));
    msg::Req elsewhere = request(kPeerIpv4, kOurIpv4);
    elsewhere.primary.local_lid = kPeerLid + 1;
    refused(kRejUnsupported, elsewhere);
    refused(kRejInvalidServiceId, request(kPeerIpv6, kOurIpv6));
}

CM_SCRIPT_IN(CmInfiniBand, Datagrams, "12.11",
             "a SIDR_REQ is for the IP address that it names, and is answered where it came from") {
    const ListenerId listener = listen_at(kOurIpv4);
    msg::SidrReq req = sidr_req();
    req.service_id = kService;
    const msg::Req addresses = request(kPeerIpv4, kOurIpv4);
    std::copy_n(addresses.private_data.begin(), msg::kIpCmHeaderBytes, req.private_data.begin());
    hears(from_peer(req));
    const SeenEvent seen = event(EventType::kSidrRequest);
    EXPECT_EQ(seen.listener, listener);
    EXPECT_EQ(seen.route.remote_lid, kPeerLid);
    destroy(seen.handle);
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrRejected);
    expect_way_back();

    const msg::Req lie = request(kOurIpv4, kOurIpv4);
    req.request_id = kPeerId + 1;
    std::copy_n(lie.private_data.begin(), msg::kIpCmHeaderBytes, req.private_data.begin());
    hears(from_peer(req));
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrRejected);
}

CM_SCRIPT_IN(
    CmInfiniBand, ByGid, "12.6.5",
    "a request without IP addresses is for listeners by GID, which take no other, on the same service ID") {
    ListenParams params;
    params.service_id = kService;
    params.families = Families::kGid;
    params.allow_sidr = true;
    const Manager::Listening anywhere = manager().listen(params);
    ASSERT_EQ(anywhere.status, Status::kOk);
    EXPECT_EQ(manager().listen(params).status, Status::kInUse);
    hears(from_peer(request(kPeerIpv6, kOurIpv6)));
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidServiceId);
    ListenParams by_ip = params;
    by_ip.families = Families::kAny;
    const Manager::Listening others = manager().listen(by_ip);
    ASSERT_EQ(others.status, Status::kOk);

    msg::Req req = request(kPeerIpv4, kOurIpv4);
    req.private_data = {0, 0x80, 7};  // of no IP version
    hears(from_peer(req));
    const SeenEvent seen = event(EventType::kRequest);
    EXPECT_EQ(seen.listener, anywhere.id);
    EXPECT_FALSE(seen.ip);
    EXPECT_EQ(seen.private_data, std::vector<std::uint8_t>(req.private_data.begin(), req.private_data.end()));
    manager().discard(seen.handle);

    params.local_gid = kOurGid;
    const Manager::Listening own = manager().listen(params);
    ASSERT_EQ(own.status, Status::kOk);
    msg::SidrReq datagrams = sidr_req();
    datagrams.service_id = kService;
    datagrams.private_data = {0x10, 0x40};  // of another major version
    hears(from_peer(datagrams));
    const SeenEvent second = event(EventType::kSidrRequest);
    EXPECT_EQ(second.listener, own.id);
    manager().discard(second.handle);
    manager().unlisten(own.id);
    manager().unlisten(anywhere.id);
    req.local_comm_id = kPeerId + 1;
    hears(from_peer(req));
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidServiceId) << "who listens by IP addresses does not count";
    manager().unlisten(others.id);
}

CM_SCRIPT_IN(CmInfiniBand, PartitionsChange, "10.9",
             "a REQ's P_Key is compared with those that the port has now") {
    listen_at(kOurIpv4);
    msg::Req req = request(kPeerIpv4, kOurIpv4);
    req.pkey = 0x8003;
    hears(from_peer(req));
    EXPECT_EQ(says<msg::Rej>().reason, kRejUnsupported);
    PkeyTable pkeys;
    pkeys.entries[1] = 0x8003;
    manager().set_pkeys(pkeys);
    hears(from_peer(req));
    const SeenEvent seen = event(EventType::kRequest);
    EXPECT_EQ(seen.route.pkey, 0x8003);
    manager().discard(seen.handle);
}

}  // namespace
}  // namespace urnic::sim::cm
