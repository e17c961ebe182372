// The link layer of InfiniBand through the stock libibverbs, on the RNICs of tests/e2e/infiniband_test.py:
// urnic0 has LID 1, urnic1 LID 77.
#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr std::uint16_t kLidA = 1;
constexpr std::uint16_t kLidB = 77;
constexpr std::uint16_t kLidOfNobody = 78;
constexpr std::uint32_t kLength = 64;

constexpr std::uint16_t kGroupLid = 0xc001;
constexpr ibv_gid kGroup{{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

ibv_ah_attr to_lid(std::uint16_t lid, std::uint8_t sl = 0) {
    ibv_ah_attr attr{};
    attr.dlid = lid;
    attr.sl = sl;
    attr.port_num = 1;
    return attr;
}

ibv_ah_attr to_gid(const Endpoint& peer, std::uint16_t lid) {
    ibv_ah_attr attr = to_lid(lid);
    attr.is_global = 1;
    attr.grh.hop_limit = 5;
    attr.grh.traffic_class = 0x6b;
    attr.grh.flow_label = 0xabcde;
    EXPECT_EQ(ibv_query_gid(peer.context.get(), 1, 0, &attr.grh.dgid), 0);
    return attr;
}

/// Whether somebody answers: then there is patience for a peer whose worker does not run.
enum class Peer : std::uint8_t { kSilent, kAnswers };

/// Takes a QP of any type to RTS; what it sends goes where `where` says.
void rts(const Endpoint& endpoint, std::uint32_t peer_qp_num, const ibv_ah_attr& where,
         Peer peer = Peer::kSilent) {
    PathOptions path;
    path.retry_cnt = peer == Peer::kAnswers ? 7 : 1;
    path.timeout = peer == Peer::kAnswers ? 18 : 10;  // 1 s, or 4 ms
    ASSERT_EQ(to_init(endpoint, path), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer_qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr = where;
    int mask = IBV_QP_STATE;
    if (endpoint.type() != IBV_QPT_UD) mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (endpoint.type() == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    ASSERT_EQ(ibv_modify_qp(endpoint.qp, &attr, mask), 0);
    ASSERT_EQ(to_rts(endpoint, 0, path), 0);
}

void send(const Endpoint& from, std::uint32_t flags, ibv_ah* ah = nullptr, const Endpoint* to = nullptr) {
    ibv_sge sge = from.sge(0, kLength);
    ibv_send_wr request{};
    request.wr_id = 2;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = flags | IBV_SEND_SIGNALED;
    if (ah != nullptr) request.wr.ud = {ah, to->qp->qp_num, kQkey};
    from.post(request);
}

TEST(IbLink, ThePort) {
    const Context context = open_device("urnic1");
    ASSERT_NE(context, nullptr);
    ibv_port_attr port{};
    std::memset(&port, 0xaa, sizeof port);
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
    EXPECT_EQ(port.lid, kLidB);
    EXPECT_EQ(port.lmc, 0);
    EXPECT_EQ(port.sm_lid, 1) << "the built-in administrator is at the first RNIC";
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_NE(port.port_cap_flags & IBV_PORT_TRAP_SUP, 0U) << "of PortInfo:CapabilityMask";
    EXPECT_EQ(port.port_cap_flags & (IBV_PORT_SM | IBV_PORT_CM_SUP), IBV_PORT_CM_SUP)
        << "the subnet manager is elsewhere";
    const Context manager = open_device("urnic0");
    ASSERT_NE(manager, nullptr);
    ASSERT_EQ(ibv_query_port(manager.get(), 1, &port), 0);
    EXPECT_NE(port.port_cap_flags & IBV_PORT_SM, 0U);
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.flags & IBV_QPF_GRH_REQUIRED, 0);
    ibv_gid_entry entry{};
    ASSERT_EQ(ibv_query_gid_ex(context.get(), 1, 0, &entry, 0), 0);
    EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_IB);
    EXPECT_EQ(entry.gid.global.subnet_prefix, htobe64(0xfe80'0000'0000'0000));
    EXPECT_EQ(entry.gid.global.interface_id, ibv_get_device_guid(context->device));
}

TEST(IbLink, AddressVectors) {
    const Endpoint a("urnic0");
    ASSERT_TRUE(a.ok());
    const auto outcome = [&](auto change) {
        ibv_ah_attr attr = to_gid(a, kLidB);
        attr.is_global = 0;
        change(attr);
        errno = 0;
        ibv_ah* ah = ibv_create_ah(a.pd, &attr);
        if (ah != nullptr) {
            EXPECT_EQ(ibv_destroy_ah(ah), 0);
            return 0;
        }
        return errno;
    };
    EXPECT_EQ(outcome([](ibv_ah_attr&) {}), 0);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.is_global = 1; }), 0);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.sl = 15; }), 0);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.dlid = 0xbfff; }), 0);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.dlid = 0; }), EINVAL);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.dlid = 0xc000; }), EINVAL) << "a group without GID";
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) {
                  attr.dlid = 0xc000;
                  attr.is_global = 1;
              }),
              EINVAL)
        << "a group's LID and a port's GID";
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) {
                  attr.is_global = 1;
                  attr.grh.dgid = kGroup;
              }),
              EINVAL)
        << "a port's LID and a group's GID";
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.dlid = 0xffff; }), EINVAL) << "the permissive LID";
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.sl = 16; }), EINVAL);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) { attr.src_path_bits = 1; }), 0) << "LMC 0: none counts";
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) {
                  attr.is_global = 1;
                  attr.grh.sgid_index = 1;
              }),
              EINVAL)
        << "a free entry";
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) {
                  attr.is_global = 1;
                  attr.grh.sgid_index = 16;
              }),
              EINVAL);
    EXPECT_EQ(outcome([](ibv_ah_attr& attr) {
                  attr.is_global = 1;
                  attr.grh.dgid = {};
              }),
              EINVAL);
}

TEST(IbLink, ConnectionsWithAndWithoutAGrh) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        for (const bool has_grh : {false, true}) {
            const EndpointOptions options{.type = type};
            const Endpoint a("urnic0", options);
            const Endpoint b("urnic1", options);
            rts(a, b.qp->qp_num, has_grh ? to_gid(b, kLidB) : to_lid(kLidB, 3), Peer::kAnswers);
            rts(b, a.qp->qp_num, has_grh ? to_gid(a, kLidA) : to_lid(kLidA, 3), Peer::kAnswers);
            std::memset(a.at(0), 0x5a, kLength);
            b.post_recv(1, {b.sge(0, kLength)});
            send(a, 0);
            a.expect_success(2, IBV_WC_SEND);
            b.expect_success(1, IBV_WC_RECV);
            EXPECT_EQ(std::memcmp(a.at(0), b.at(0), kLength), 0);
            ibv_qp_attr attr{};
            ibv_qp_init_attr init{};
            ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_AV, &init), 0);
            EXPECT_EQ(attr.ah_attr.dlid, kLidB);
            EXPECT_EQ(attr.ah_attr.sl, has_grh ? 0 : 3);
            EXPECT_EQ(attr.ah_attr.is_global, has_grh ? 1 : 0);
        }
    }
}

TEST(IbLink, ALidOfNobody) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    rts(a, b.qp->qp_num, to_lid(kLidOfNobody));
    rts(b, a.qp->qp_num, to_lid(kLidA));
    b.post_recv(1, {b.sge(0, kLength)});
    send(a, 0);
    EXPECT_EQ(a.poll_one().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_TRUE(b.quiet());
}

TEST(IbLink, OnlyThePeersLidIsHeard) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    const Endpoint c("urnic0");
    rts(a, b.qp->qp_num, to_lid(kLidB));
    rts(b, a.qp->qp_num, to_lid(kLidOfNobody));
    b.post_recv(1, {b.sge(0, kLength)});
    send(a, 0);
    EXPECT_EQ(a.poll_one().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_TRUE(b.quiet());
    // Who expects a GRH does not take a packet without one.
    const Endpoint d("urnic1");
    rts(c, d.qp->qp_num, to_lid(kLidB));
    rts(d, c.qp->qp_num, to_gid(c, kLidA));
    d.post_recv(1, {d.sge(0, kLength)});
    send(c, 0);
    EXPECT_EQ(c.poll_one().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_TRUE(d.quiet());
}

/// Of that RNIC, as `urnic status` has it now; files in sysfs are up to a second old.
std::uint64_t counter(const std::string& device, const std::string& name) {
    const char* build = std::getenv("URNIC_BUILD");
    const std::string command = std::string(build != nullptr ? build : "build") + "/urnic status --json";
    FILE* const out = popen(command.c_str(), "r");
    if (out == nullptr) {
        ADD_FAILURE() << command << ": " << std::strerror(errno);
        return 0;
    }
    std::string text;
    for (int c = fgetc(out); c != EOF; c = fgetc(out)) {
        text.push_back(static_cast<char>(c));
    }
    EXPECT_EQ(pclose(out), 0) << command;
    const std::size_t digits =
        text.find_first_of("0123456789", text.find(name + '"', text.find('"' + device + '"')));
    if (digits == std::string::npos) {
        ADD_FAILURE() << text;
        return 0;
    }
    return std::strtoull(text.c_str() + digits, nullptr, 10);
}

// On the RNIC of the peer, with its LID, its QP's number and the PSN that comes next.
TEST(IbLink, AStrangersRequestsAreNotThePeers) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    const Endpoint stranger("urnic0");
    rts(a, b.qp->qp_num, to_lid(kLidB), Peer::kAnswers);
    rts(b, a.qp->qp_num, to_lid(kLidA), Peer::kAnswers);
    rts(stranger, b.qp->qp_num, to_lid(kLidB));
    const std::uint64_t before = counter("urnic1", "drop_wrong_sender");
    std::memset(a.at(0), 0x5a, kLength);
    std::memset(stranger.at(0), 0x66, kLength);
    b.post_recv(1, {b.sge(0, kLength)});
    send(stranger, 0);
    EXPECT_EQ(stranger.poll_one().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_GT(counter("urnic1", "drop_wrong_sender"), before);
    EXPECT_TRUE(b.quiet());
    send(a, 0);
    a.expect_success(2, IBV_WC_SEND);
    b.expect_success(1, IBV_WC_RECV);
    EXPECT_EQ(std::memcmp(a.at(0), b.at(0), kLength), 0);
}

TEST(IbLink, DatagramsTellWhereTheyCameFrom) {
    const EndpointOptions options{.type = IBV_QPT_UD};
    const Endpoint a("urnic0", options);
    const Endpoint b("urnic1", options);
    rts(a, 0, {});
    rts(b, 0, {});
    for (const bool has_grh : {false, true}) {
        ibv_ah_attr where = has_grh ? to_gid(b, kLidB) : to_lid(kLidB);
        where.sl = 5;
        ibv_ah* ah = ibv_create_ah(a.pd, &where);
        ASSERT_NE(ah, nullptr);
        std::memset(b.at(0), 0xee, kGrhBytes + kLength);
        std::memset(a.at(0), 0x5a, kLength);
        b.post_recv(1, {b.sge(0, kLength + kGrhBytes)});
        send(a, 0, ah, &b);
        a.expect_success(2, IBV_WC_SEND);
        ibv_wc got = b.poll_one();
        ASSERT_EQ(got.status, IBV_WC_SUCCESS);
        EXPECT_EQ(got.byte_len, kLength + kGrhBytes);
        EXPECT_EQ(got.slid, kLidA);
        EXPECT_EQ(got.sl, 5);
        EXPECT_EQ(got.dlid_path_bits, 0);
        EXPECT_EQ(got.src_qp, a.qp->qp_num);
        EXPECT_EQ(got.wc_flags & IBV_WC_GRH, has_grh ? unsigned{IBV_WC_GRH} : 0U);
        EXPECT_EQ(std::memcmp(a.at(0), b.at(kGrhBytes), kLength), 0);
        auto* const grh = reinterpret_cast<ibv_grh*>(b.at(0));
        if (has_grh) {
            EXPECT_EQ(ntohl(grh->version_tclass_flow), 0x6'6babcdeU);
            EXPECT_EQ(grh->next_hdr, 0x1b);
            EXPECT_EQ(grh->hop_limit, 5);
            EXPECT_EQ(std::memcmp(&grh->dgid, &where.grh.dgid, 16), 0);
        } else {
            for (std::size_t i = 0; i < kGrhBytes; ++i) {
                EXPECT_EQ(*b.at(i), 0xee) << "the room of a GRH that is not there";
            }
        }
        // The way back, as programs make it.
        ibv_ah* back = ibv_create_ah_from_wc(b.pd, &got, grh, 1);
        ASSERT_NE(back, nullptr) << std::strerror(errno);
        a.post_recv(1, {a.sge(0, kLength + kGrhBytes)});
        send(b, 0, back, &a);
        b.expect_success(2, IBV_WC_SEND);
        const ibv_wc answer = a.poll_one();
        EXPECT_EQ(answer.status, IBV_WC_SUCCESS);
        EXPECT_EQ(answer.slid, kLidB);
        EXPECT_EQ(answer.sl, 5);
        EXPECT_EQ(ibv_destroy_ah(back), 0);
        EXPECT_EQ(ibv_destroy_ah(ah), 0);
    }
}

std::uint16_t lid_of(const Endpoint& endpoint) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(endpoint.context.get(), 1, &port), 0);
    return port.lid;
}

// Of any subnet: tests/e2e/subnet_builtin_test.py looks who hears of it.
TEST(IbKeys, AWrongQkeyIsDroppedAndCounted) {
    const EndpointOptions options{.type = IBV_QPT_UD};
    const Endpoint a("urnic0", options);
    const Endpoint b("urnic1", options);
    rts(a, 0, {});
    rts(b, 0, {});
    const auto violations = [&] {
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(b.context.get(), 1, &port), 0);
        return port.qkey_viol_cntr;
    };
    const std::uint32_t before = violations();
    ibv_ah_attr where = to_lid(lid_of(b), 3);
    ibv_ah* ah = ibv_create_ah(a.pd, &where);
    ASSERT_NE(ah, nullptr) << std::strerror(errno);
    b.post_recv(1, {b.sge(0, kLength + kGrhBytes)});
    ibv_sge sge = a.sge(0, kLength);
    ibv_send_wr right{};
    right.wr_id = 3;
    right.sg_list = &sge;
    right.num_sge = 1;
    right.opcode = IBV_WR_SEND;
    right.send_flags = IBV_SEND_SIGNALED;
    right.wr.ud = {ah, b.qp->qp_num, kQkey};
    ibv_send_wr wrong = right;
    wrong.wr_id = 2;
    wrong.wr.ud.remote_qkey = 0x1234;
    wrong.next = &right;
    a.post(wrong);
    a.expect_success(2, IBV_WC_SEND);
    a.expect_success(3, IBV_WC_SEND);
    b.expect_success(1, IBV_WC_RECV);
    EXPECT_TRUE(b.quiet());
    EXPECT_EQ(violations(), before + 1);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST(IbLink, GroupsHaveMulticastLids) {
    const Endpoint a("urnic0", {.type = IBV_QPT_UD});
    const Endpoint b("urnic0", {.type = IBV_QPT_UD});
    for (const std::uint16_t lid : {0, 1, 0xbfff, 0xffff}) {
        EXPECT_EQ(ibv_attach_mcast(a.qp, &kGroup, lid), EINVAL) << lid;
    }
    EXPECT_EQ(ibv_attach_mcast(a.qp, &kGroup, kGroupLid), 0);
    EXPECT_EQ(ibv_attach_mcast(b.qp, &kGroup, kGroupLid + 1), EINVAL) << "the group has another LID";
    EXPECT_EQ(ibv_detach_mcast(a.qp, &kGroup, kGroupLid), 0);
    EXPECT_EQ(ibv_attach_mcast(b.qp, &kGroup, kGroupLid + 1), 0);
    EXPECT_EQ(ibv_detach_mcast(b.qp, &kGroup, kGroupLid + 1), 0);
}

// A member on each RNIC, the sender's too, and a stranger.
TEST(IbLink, MulticastGoesToMembersAlone) {
    const EndpointOptions options{.type = IBV_QPT_UD};
    const Endpoint sender("urnic0", options);
    const Endpoint near("urnic0", options);
    const Endpoint far("urnic1", options);
    const Endpoint stranger("urnic1", options);
    for (const Endpoint* endpoint : {&sender, &near, &far, &stranger}) {
        rts(*endpoint, 0, {});
        endpoint->post_recv(1, {endpoint->sge(0, kLength + kGrhBytes)});
    }
    ibv_ah_attr where = to_lid(kGroupLid, 2);
    where.is_global = 1;
    where.grh.dgid = kGroup;
    ibv_ah* ah = ibv_create_ah(sender.pd, &where);
    ASSERT_NE(ah, nullptr) << std::strerror(errno);
    ASSERT_EQ(ibv_attach_mcast(near.qp, &kGroup, kGroupLid), 0);
    ASSERT_EQ(ibv_attach_mcast(far.qp, &kGroup, kGroupLid), 0);
    ibv_sge sge = sender.sge(256, kLength);
    ibv_send_wr request{};
    request.wr_id = 2;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud = {ah, 0xff'ffff, kQkey};
    std::memset(sender.at(256), 0x5a, kLength);
    sender.post(request);
    sender.expect_success(2, IBV_WC_SEND);
    for (const Endpoint* member : {&near, &far}) {
        const ibv_wc got = member->poll_one();
        ASSERT_EQ(got.status, IBV_WC_SUCCESS);
        EXPECT_EQ(got.slid, kLidA);
        EXPECT_EQ(got.sl, 2);
        EXPECT_EQ(got.src_qp, sender.qp->qp_num);
        EXPECT_NE(got.wc_flags & IBV_WC_GRH, 0U);
        EXPECT_EQ(std::memcmp(reinterpret_cast<ibv_grh*>(member->at(0))->dgid.raw, kGroup.raw, 16), 0);
        EXPECT_EQ(std::memcmp(sender.at(256), member->at(kGrhBytes), kLength), 0);
    }
    EXPECT_TRUE(stranger.quiet());
    // Who has left gets nothing more; the others do.
    ASSERT_EQ(ibv_detach_mcast(near.qp, &kGroup, kGroupLid), 0);
    near.post_recv(1, {near.sge(0, kLength + kGrhBytes)});
    far.post_recv(1, {far.sge(0, kLength + kGrhBytes)});
    sender.post(request);
    sender.expect_success(2, IBV_WC_SEND);
    EXPECT_EQ(far.poll_one().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(near.quiet());
    ASSERT_EQ(ibv_detach_mcast(far.qp, &kGroup, kGroupLid), 0);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

}  // namespace
}  // namespace urnic::e2e
