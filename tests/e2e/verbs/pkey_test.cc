// Partitions through the stock libibverbs, on the RNICs of tests/e2e/pkeys_test.py: urnic0 has the P_Keys
// 0x8123 and 0x7abc, urnic1 0xffff, 0x8123, 0xfabc and 0x7abc.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr std::uint32_t kLength = 64;

std::uint32_t bad_pkeys(const Endpoint& endpoint) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(endpoint.context.get(), 1, &port), 0);
    return port.bad_pkey_cntr;
}

/// Joins two QPs, each with an index of its own.
void join(const Endpoint& a, std::uint16_t index_a, const Endpoint& b, std::uint16_t index_b) {
    PathOptions path;
    path.retry_cnt = 1;
    path.timeout = 10;  // 4 ms
    path.pkey_index = index_a;
    ASSERT_EQ(to_init(a, path), 0);
    path.pkey_index = index_b;
    ASSERT_EQ(to_init(b, path), 0);
    ASSERT_EQ(to_rtr(a, b, path.psn_b, path), 0);
    ASSERT_EQ(to_rtr(b, a, path.psn_a, path), 0);
    ASSERT_EQ(to_rts(a, path.psn_a, path), 0);
    ASSERT_EQ(to_rts(b, path.psn_b, path), 0);
}

/// The status of a SEND from a to b.
ibv_wc_status send_status(const Endpoint& a, const Endpoint& b) {
    b.post_recv(1, {b.sge(0, kLength)});
    ibv_sge sge = a.sge(0, kLength);
    ibv_send_wr request{};
    request.wr_id = 2;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    a.post(request);
    return a.poll_one().status;
}

TEST(Pkeys, TheTableIsThatOfTheConfiguration) {
    const std::vector<std::uint16_t> expected[] = {{0x8123, 0x7abc}, {0xffff, 0x8123, 0xfabc, 0x7abc}};
    for (const int number : {0, 1}) {
        const Context context = open_device("urnic" + std::to_string(number));
        ASSERT_NE(context, nullptr);
        for (int i = 0; i < 128; ++i) {
            const auto& list = expected[number];
            __be16 pkey = 0;
            ASSERT_EQ(ibv_query_pkey(context.get(), 1, i, &pkey), 0);
            EXPECT_EQ(ntohs(pkey), static_cast<std::size_t>(i) < list.size() ? list[i] : 0) << i;
        }
    }
    const Context context = open_device("urnic1");
    EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, htons(0xfabc)), 2);
    EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, htons(0x1111)), -1);
}

TEST(Pkeys, AFreeEntryIsRefused) {
    const Endpoint a("urnic0");
    ASSERT_TRUE(a.ok());
    PathOptions path;
    for (const std::uint16_t index : {2, 127, 128, 0xffff}) {
        path.pkey_index = index;
        EXPECT_EQ(to_init(a, path), EINVAL) << index;
    }
    path.pkey_index = 1;
    EXPECT_EQ(to_init(a, path), 0);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_PKEY_INDEX, &init), 0);
    EXPECT_EQ(attr.pkey_index, 1);
}

TEST(Pkeys, OnePartitionAtAnyIndex) {
    for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        const EndpointOptions options{.type = type};
        const Endpoint a("urnic0", options);
        const Endpoint b("urnic1", options);
        join(a, 0, b, 1);
        const std::uint32_t before = bad_pkeys(b);
        EXPECT_EQ(send_status(a, b), IBV_WC_SUCCESS);
        b.expect_success(1, IBV_WC_RECV);
        EXPECT_EQ(bad_pkeys(b), before);
    }
}

TEST(Pkeys, AFullMemberAndALimitedOne) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    join(a, 1, b, 2);
    EXPECT_EQ(send_status(a, b), IBV_WC_SUCCESS);
    b.expect_success(1, IBV_WC_RECV);
    EXPECT_EQ(send_status(b, a), IBV_WC_SUCCESS);
    a.expect_success(1, IBV_WC_RECV);
}

TEST(Pkeys, OtherPartitionsAndTwoLimitedMembersDoNotMeet) {
    for (const std::pair<std::uint16_t, std::uint16_t> indices : {std::pair(0, 0), {0, 2}, {1, 3}}) {
        const Endpoint a("urnic0");
        const Endpoint b("urnic1");
        join(a, indices.first, b, indices.second);
        const std::uint32_t before = bad_pkeys(b);
        EXPECT_EQ(send_status(a, b), IBV_WC_RETRY_EXC_ERR);
        EXPECT_GE(bad_pkeys(b), before + 2) << "the request and its repetition";
        EXPECT_TRUE(b.quiet());
    }
}

TEST(Pkeys, Datagrams) {
    const EndpointOptions options{.type = IBV_QPT_UD};
    const Endpoint a("urnic0", options);
    const Endpoint b("urnic1", options);
    const Endpoint other("urnic1", options);
    join(a, 1, b, 2);
    join(Endpoint("urnic0", options), 0, other, 0);
    ibv_ah_attr where{};
    where.is_global = 1;
    where.port_num = 1;
    where.grh.sgid_index = 1;
    where.grh.hop_limit = 64;
    ASSERT_EQ(ibv_query_gid(b.context.get(), 1, 1, &where.grh.dgid), 0);
    ibv_ah* ah = ibv_create_ah(a.pd, &where);
    ASSERT_NE(ah, nullptr);
    const std::uint32_t before = bad_pkeys(b);
    for (const Endpoint* to : {&other, &b}) {
        to->post_recv(1, {to->sge(0, kLength + kGrhBytes)});
        ibv_sge sge = a.sge(0, kLength);
        ibv_send_wr request{};
        request.wr_id = 2;
        request.sg_list = &sge;
        request.num_sge = 1;
        request.opcode = IBV_WR_SEND;
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.ud = {ah, to->qp->qp_num, kQkey};
        a.post(request);
        a.expect_success(2, IBV_WC_SEND);
    }
    b.expect_success(1, IBV_WC_RECV);
    EXPECT_TRUE(other.quiet());
    EXPECT_EQ(bad_pkeys(b), before + 1);
    EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

}  // namespace
}  // namespace urnic::e2e
