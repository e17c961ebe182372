// UC and UD through the stock libibverbs: data, what a receiver of datagrams sees, address handles.
#include <arpa/inet.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

struct AhDeleter {
    void operator()(ibv_ah* ah) const { EXPECT_EQ(ibv_destroy_ah(ah), 0); }
};
using Ah = std::unique_ptr<ibv_ah, AhDeleter>;

Ah make_ah(const Endpoint& from, const Endpoint& to, std::uint8_t gid_index = kUsualGid) {
    ibv_ah_attr attr = address_of(to.context.get(), gid_index);
    Ah ah(ibv_create_ah(from.pd, &attr));
    EXPECT_NE(ah, nullptr) << std::strerror(errno);
    return ah;
}

ibv_send_wr datagram(std::uint64_t wr_id, ibv_sge* sge, const Ah& ah, const Endpoint& to) {
    ibv_send_wr wr = request(IBV_WR_SEND, wr_id, sge, 1);
    wr.wr.ud.ah = ah.get();
    wr.wr.ud.remote_qpn = to.qp->qp_num;
    wr.wr.ud.remote_qkey = kQkey;
    return wr;
}

class Uc : public testing::TestWithParam<ibv_mtu> {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0", EndpointOptions{.type = IBV_QPT_UC});
        b_ = std::make_unique<Endpoint>("urnic1", EndpointOptions{.type = IBV_QPT_UC});
        connect(*a_, *b_, {.mtu = GetParam()});
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    std::unique_ptr<Endpoint> a_, b_;
};

TEST_P(Uc, SendsAndWritesWithImmediate) {
    const std::size_t mtu = std::size_t{128} << static_cast<unsigned>(GetParam());
    std::uint32_t seed = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, mtu - 1, mtu, mtu + 1, 10 * mtu + 3}) {
        for (const ibv_wr_opcode opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM}) {
            ++seed;
            const bool is_write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
            fill(a_->at(5), size, seed);
            std::memset(b_->at(0), 0, size + 200);
            b_->post_recv(seed, {b_->sge(100, size)});
            ibv_sge sge = a_->sge(5, size);
            ibv_send_wr wr = rdma(opcode, seed, &sge, 1, *b_, 100);
            wr.imm_data = htonl(seed);
            a_->post(wr);
            a_->expect_success(seed, is_write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
            const ibv_wc received = b_->poll_one();
            ASSERT_EQ(received.status, IBV_WC_SUCCESS);
            EXPECT_EQ(received.opcode, is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
            EXPECT_EQ(received.byte_len, size);
            EXPECT_EQ(received.imm_data, htonl(seed));
            EXPECT_EQ(first_difference(b_->at(100), size, seed), -1);
            EXPECT_EQ(first_other(b_->at(100 + size), 100, 0), -1);
        }
    }
}

TEST_P(Uc, WhatWasPostedGoesOutBeforeTheQpIsDestroyed) {
    fill(a_->at(0), 64, 1);
    b_->post_recv(7, {b_->sge(0, 64)});
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, 1);
    a_->post(wr);
    ASSERT_EQ(ibv_destroy_qp(std::exchange(a_->qp, nullptr)), 0);
    b_->expect_success(7, IBV_WC_RECV);
    EXPECT_EQ(first_difference(b_->at(0), 64, 1), -1);
}

TEST_P(Uc, WritesAndInlineData) {
    fill(a_->at(0), 100'000, 1);
    ibv_sge sge = a_->sge(0, 100'000);
    ibv_send_wr write = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 7);
    a_->post(write);
    a_->expect_success(1, IBV_WC_RDMA_WRITE);
    // A SEND behind the WRITE: when it is there, the WRITE is.
    std::uint8_t words[32];
    fill(words, sizeof words, 2);
    b_->post_recv(9, {b_->sge(200'000, 32)});
    ibv_sge plain{reinterpret_cast<std::uint64_t>(words), sizeof words, 0};
    ibv_send_wr send = request(IBV_WR_SEND, 2, &plain, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    a_->post(send);
    a_->expect_success(2, IBV_WC_SEND);
    b_->expect_success(9, IBV_WC_RECV);
    EXPECT_EQ(first_difference(b_->at(7), 100'000, 1), -1);
    EXPECT_EQ(first_difference(b_->at(200'000), 32, 2), -1);
}

TEST_P(Uc, WhatUcDoesNotHaveIsRefusedWhenPosted) {
    ibv_sge sge = a_->sge(0, 8);
    for (const ibv_wr_opcode opcode :
         {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV}) {
        ibv_send_wr good = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
        ibv_send_wr wr = rdma(opcode, 2, &sge, 1, *b_, 0);
        good.next = &wr;
        ibv_send_wr* bad = nullptr;
        EXPECT_EQ(ibv_post_send(a_->qp, &good, &bad), EINVAL);
        EXPECT_EQ(bad, &wr);
        a_->expect_success(1, IBV_WC_RDMA_WRITE);
    }
}

INSTANTIATE_TEST_SUITE_P(Mtus, Uc, testing::Values(IBV_MTU_256, IBV_MTU_4096));

class Ud : public testing::TestWithParam<std::uint8_t> {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0", EndpointOptions{.type = IBV_QPT_UD});
        b_ = std::make_unique<Endpoint>("urnic1", EndpointOptions{.type = IBV_QPT_UD});
        connect(*a_, *b_);
        if (HasFailure()) GTEST_FAIL() << "not in RTS";
        to_b_ = make_ah(*a_, *b_, GetParam());
    }
    void TearDown() override { to_b_.reset(); }
    [[nodiscard]] ibv_gid gid_of(const Endpoint& side) const {
        ibv_gid gid{};
        EXPECT_EQ(ibv_query_gid(side.context.get(), 1, GetParam(), &gid), 0);
        return gid;
    }
    void expect_grh(const std::uint8_t* grh) const {
        const ibv_gid from = gid_of(*a_);
        const ibv_gid to = gid_of(*b_);
        if (GetParam() == 0) {
            EXPECT_EQ(grh[0] >> 4U, 6);
            EXPECT_EQ(grh[6], 17);
            EXPECT_EQ(std::memcmp(grh + 8, from.raw, 16), 0);
            EXPECT_EQ(std::memcmp(grh + 24, to.raw, 16), 0);
            return;
        }
        EXPECT_EQ(first_other(grh, 20, 0), -1);
        EXPECT_EQ(grh[20], 0x45);
        EXPECT_EQ(grh[29], 17);
        EXPECT_EQ(std::memcmp(grh + 32, from.raw + 12, 4), 0);
        EXPECT_EQ(std::memcmp(grh + 36, to.raw + 12, 4), 0);
    }

    std::unique_ptr<Endpoint> a_, b_;
    Ah to_b_;
};

TEST_P(Ud, DataArrivesBehindTheIpHeader) {
    std::uint32_t seed = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{4096}}) {
        ++seed;
        fill(a_->at(3), size, seed);
        std::memset(b_->at(0), 0x55, size + 300);
        b_->post_recv(seed, {b_->sge(100, kGrhBytes + size)});
        ibv_sge sge = a_->sge(3, size);
        ibv_send_wr wr = datagram(seed, &sge, to_b_, *b_);
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = htonl(seed);
        a_->post(wr);
        a_->expect_success(seed, IBV_WC_SEND);
        const ibv_wc received = b_->poll_one();
        ASSERT_EQ(received.status, IBV_WC_SUCCESS);
        EXPECT_EQ(received.byte_len, size + kGrhBytes);
        EXPECT_EQ(received.src_qp, a_->qp->qp_num);
        EXPECT_EQ(received.qp_num, b_->qp->qp_num);
        EXPECT_EQ(received.wc_flags, static_cast<unsigned>(IBV_WC_GRH | IBV_WC_WITH_IMM));
        EXPECT_EQ(received.imm_data, htonl(seed));
        EXPECT_EQ(received.sl, GetParam() == 0 ? 0x9 : 0xa);  // RoCE v2 over IPv6, over IPv4
        expect_grh(b_->at(100));
        EXPECT_EQ(first_difference(b_->at(140), size, seed), -1);
        EXPECT_EQ(first_other(b_->at(140 + size), 100, 0x55), -1);
    }
}

TEST_P(Ud, WhatWasPostedGoesOutBeforeItsHandleAndTheQpAreDestroyed) {
    fill(a_->at(0), 64, 3);
    b_->post_recv(7, {b_->sge(0, 64 + sizeof(ibv_grh))});
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = datagram(1, &sge, to_b_, *b_);
    a_->post(wr);
    to_b_.reset();
    ASSERT_EQ(ibv_destroy_qp(std::exchange(a_->qp, nullptr)), 0);
    b_->expect_success(7, IBV_WC_RECV);
    EXPECT_EQ(first_difference(b_->at(sizeof(ibv_grh)), 64, 3), -1);
}

TEST_P(Ud, AnAnswerGoesToWhereTheCompletionSays) {
    b_->post_recv(1, {b_->sge(0, 100)});
    a_->post_recv(2, {a_->sge(1000, 100)});
    ibv_sge sge = a_->sge(0, 8);
    ibv_send_wr wr = datagram(1, &sge, to_b_, *b_);
    a_->post(wr);
    a_->expect_success(1, IBV_WC_SEND);
    ibv_wc received = b_->poll_one();
    ASSERT_EQ(received.status, IBV_WC_SUCCESS);
    ibv_ah_attr attr{};
    ASSERT_EQ(
        ibv_init_ah_from_wc(b_->context.get(), 1, &received, reinterpret_cast<ibv_grh*>(b_->at(0)), &attr),
        0);
    EXPECT_EQ(attr.grh.sgid_index, GetParam());
    const ibv_gid source = gid_of(*a_);
    EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, source.raw, sizeof source), 0);
    const Ah back(ibv_create_ah_from_wc(b_->pd, &received, reinterpret_cast<ibv_grh*>(b_->at(0)), 1));
    ASSERT_NE(back, nullptr) << std::strerror(errno);
    fill(b_->at(500), 60, 77);
    ibv_sge answer = b_->sge(500, 60);
    ibv_send_wr reply = datagram(3, &answer, back, *a_);
    reply.wr.ud.remote_qpn = received.src_qp;
    b_->post(reply);
    b_->expect_success(3, IBV_WC_SEND);
    a_->expect_success(2, IBV_WC_RECV);
    EXPECT_EQ(first_difference(a_->at(1000 + kGrhBytes), 60, 77), -1);
}

TEST_P(Ud, AWrongQkeyIsDroppedAndThePortCountsIt) {
    const auto violations = [this] {
        ibv_port_attr port{};
        EXPECT_EQ(ibv_query_port(b_->context.get(), 1, &port), 0);
        return port.qkey_viol_cntr;
    };
    const std::uint32_t before = violations();
    b_->post_recv(1, {b_->sge(0, 100)});
    ibv_sge sge = a_->sge(0, 8);
    ibv_send_wr wrong = datagram(1, &sge, to_b_, *b_);
    wrong.wr.ud.remote_qkey = kQkey ^ 1U;
    ibv_send_wr own = datagram(2, &sge, to_b_, *b_);
    own.wr.ud.remote_qkey = 0x80000000;  // the QP's own
    wrong.next = &own;
    a_->post(wrong);
    a_->expect_success(1, IBV_WC_SEND);
    a_->expect_success(2, IBV_WC_SEND);
    b_->expect_success(1, IBV_WC_RECV);
    EXPECT_EQ(violations(), before + 1);
    EXPECT_TRUE(b_->quiet());
}

TEST_P(Ud, ErrorsStopTheSendQueueUntilRts) {
    const Endpoint other("urnic0", {.type = IBV_QPT_UD});
    const Ah foreign = make_ah(other, *b_, GetParam());
    ibv_sge sge = a_->sge(0, 4097);
    ibv_send_wr too_long = datagram(1, &sge, to_b_, *b_);
    ibv_sge small = a_->sge(0, 8);
    ibv_send_wr wrong_pd = datagram(2, &small, foreign, *b_);
    for (ibv_send_wr* wr : {&too_long, &wrong_pd}) {
        ibv_send_wr behind = datagram(3, &small, to_b_, *b_);
        wr->next = &behind;
        a_->post(*wr);
        const ibv_wc failed = a_->poll_one();
        EXPECT_EQ(failed.status, wr == &too_long ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_QP_OP_ERR);
        EXPECT_EQ(failed.wr_id, wr->wr_id);
        const ibv_wc flushed = a_->poll_one();
        EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(a_->state(), IBV_QPS_SQE);
        ASSERT_EQ(to_state(*a_, IBV_QPS_RTS), 0);
        b_->post_recv(4, {b_->sge(0, 100)});
        ibv_send_wr good = datagram(5, &small, to_b_, *b_);
        a_->post(good);
        a_->expect_success(5, IBV_WC_SEND);
        b_->expect_success(4, IBV_WC_RECV);
    }
}

INSTANTIATE_TEST_SUITE_P(Gids, Ud, testing::Values(0, 1));

TEST(AddressHandle, ErrorsWhenCreated) {
    const Endpoint a("urnic0", {.type = IBV_QPT_UD});
    const Endpoint b("urnic1", {.type = IBV_QPT_UD});
    ibv_ah_attr attr = address_of(b.context.get());
    attr.is_global = 0;
    EXPECT_EQ(ibv_create_ah(a.pd, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr = address_of(b.context.get());
    attr.grh.sgid_index = 0;
    EXPECT_EQ(ibv_create_ah(a.pd, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr = address_of(b.context.get());
    attr.grh.dgid.raw[15] = 200;
    EXPECT_EQ(ibv_create_ah(a.pd, &attr), nullptr);
    EXPECT_EQ(errno, ENETUNREACH);
    const Ah ah = make_ah(a, b);
    EXPECT_EQ(ibv_dealloc_pd(a.pd), EBUSY);
}

TEST(AddressHandle, ManyComeAndGoWhileOneIsInUse) {
    const Endpoint a("urnic0", {.type = IBV_QPT_UD});
    const Endpoint b("urnic1", {.type = IBV_QPT_UD});
    connect(a, b);
    if (testing::Test::HasFailure()) return;
    const Ah ah = make_ah(a, b);
    std::thread others([&] {
        for (int i = 0; i < 500; ++i) make_ah(a, b).reset();
    });
    for (std::uint32_t i = 0; i < 500; ++i) {
        fill(a.at(0), 100, i);
        b.post_recv(i, {b.sge(0, 200)});
        ibv_sge sge = a.sge(0, 100);
        ibv_send_wr wr = datagram(i, &sge, ah, b);
        a.post(wr);
        a.expect_success(i, IBV_WC_SEND);
        b.expect_success(i, IBV_WC_RECV);
        EXPECT_EQ(first_difference(b.at(kGrhBytes), 100, i), -1);
    }
    others.join();
}

/// A UD QP beside that of `home`, ready to receive; nullptr: refused.
ibv_qp* another_peer(const Endpoint& home) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = home.cq;
    init.cap = {1, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    ibv_qp* qp = ibv_create_qp(home.pd, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    if (qp != nullptr) {
        EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
        attr.qp_state = IBV_QPS_RTR;
        EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    }
    return qp;
}

// One QP sends to as many as there can be, itself among them, by one address handle.
TEST(DatagramPeers, AsManyAsThereCanBeQps) {
    const Endpoint home("urnic0", {.type = IBV_QPT_UD});
    connect(home, home);
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(home.context.get(), &device), 0);
    const auto count = static_cast<std::uint32_t>(device.max_qp);
    constexpr std::size_t kRoom = kGrhBytes + sizeof count;
    ASSERT_LE(count * kRoom + sizeof count, home.buffer.size());
    const Ah ah = make_ah(home, home);
    std::vector<ibv_qp*> qps{home.qp};
    while (qps.size() < count) {
        qps.push_back(another_peer(home));
        ASSERT_NE(qps.back(), nullptr) << qps.size() << ": " << std::strerror(errno);
    }
    for (std::uint32_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
        ibv_sge room = home.sge(i * kRoom, kRoom);
        ibv_recv_wr receive{};
        receive.wr_id = i;
        receive.sg_list = &room;
        receive.num_sge = 1;
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_recv(qps[i], &receive, &bad), 0);
        ibv_sge number = home.sge(count * kRoom, sizeof i);
        std::memcpy(home.at(count * kRoom), &i, sizeof i);
        ibv_send_wr wr = datagram(i, &number, ah, home);
        wr.wr.ud.remote_qpn = qps[i]->qp_num;
        home.post(wr);
        for (int of = 0; of < 2; ++of) {  // the send and the receive, in whatever order
            const ibv_wc wc = home.poll_one();
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_EQ(wc.wr_id, i);
            EXPECT_EQ(wc.qp_num, wc.opcode == IBV_WC_RECV ? qps[i]->qp_num : home.qp->qp_num);
        }
        EXPECT_EQ(std::memcmp(home.at(i * kRoom + kGrhBytes), &i, sizeof i), 0);
    }
    for (std::size_t i = 1; i < qps.size(); ++i) ASSERT_EQ(ibv_destroy_qp(qps[i]), 0);
}

TEST(UnreliableExtended, ADatagramIsBuiltAndItsCompletionRead) {
    const Endpoint a("urnic0", {.type = IBV_QPT_UD, .extended = true});
    const Endpoint b("urnic1", {.type = IBV_QPT_UD, .extended = true});
    connect(a, b);
    if (testing::Test::HasFailure()) return;
    const Ah ah = make_ah(a, b);
    b.post_recv(1, {b.sge(0, 200)});
    b.post_recv(2, {b.sge(1000, 200)});
    fill(a.at(0), 100, 5);
    ibv_wr_start(a.qp_ex);
    a.qp_ex->wr_id = 7;
    a.qp_ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(a.qp_ex);
    ibv_wr_set_ud_addr(a.qp_ex, ah.get(), b.qp->qp_num, kQkey);
    ibv_wr_set_sge(a.qp_ex, a.mr->lkey, a.address(0), 100);
    a.qp_ex->wr_id = 8;
    ibv_wr_send_imm(a.qp_ex, htonl(99));
    ibv_wr_set_inline_data(a.qp_ex, a.at(0), 50);
    ibv_wr_set_ud_addr(a.qp_ex, ah.get(), b.qp->qp_num, 0x80000000);
    ASSERT_EQ(ibv_wr_complete(a.qp_ex), 0);
    a.expect_success(7, IBV_WC_SEND);
    a.expect_success(8, IBV_WC_SEND);
    for (const std::uint64_t wr_id : {1U, 2U}) {
        ibv_poll_cq_attr attr{};
        int started = ENOENT;
        ASSERT_TRUE(comes([&] { return (started = ibv_start_poll(b.cq_ex, &attr)) != ENOENT; }))
            << "no completion came";
        ASSERT_EQ(started, 0);
        EXPECT_EQ(b.cq_ex->wr_id, wr_id);
        EXPECT_EQ(b.cq_ex->status, IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_wc_read_src_qp(b.cq_ex), a.qp->qp_num);
        EXPECT_EQ(ibv_wc_read_byte_len(b.cq_ex), kGrhBytes + (wr_id == 1 ? 100 : 50));
        EXPECT_EQ(ibv_wc_read_wc_flags(b.cq_ex) & IBV_WC_GRH, static_cast<unsigned>(IBV_WC_GRH));
        EXPECT_EQ(ibv_wc_read_sl(b.cq_ex), 0xa) << "the kind of packet: UDP over IPv4 (annex A17.4.5.1)";
        ibv_end_poll(b.cq_ex);
    }
    EXPECT_EQ(first_difference(b.at(kGrhBytes), 100, 5), -1);
    EXPECT_EQ(first_difference(b.at(1000 + kGrhBytes), 50, 5), -1);
    // Without a destination the request fails, whatever the slot held before.
    ibv_wr_start(a.qp_ex);
    a.qp_ex->wr_id = 9;
    ibv_wr_send(a.qp_ex);
    ibv_wr_set_sge(a.qp_ex, a.mr->lkey, a.address(0), 1);
    ASSERT_EQ(ibv_wr_complete(a.qp_ex), 0);
    EXPECT_EQ(a.poll_one().status, IBV_WC_LOC_QP_OP_ERR);
}

TEST(UnreliableExtended, OperationsThatATypeDoesNotHave) {
    const Endpoint a("urnic0");
    const struct {
        ibv_qp_type type;
        std::uint64_t ops;
    } wishes[] = {{IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE},
                  {IBV_QPT_UD, IBV_QP_EX_WITH_SEND_WITH_INV},
                  {IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ},
                  {IBV_QPT_UC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD}};
    for (const auto& wish : wishes) {
        ibv_qp_init_attr_ex init{};
        init.send_cq = init.recv_cq = a.cq;
        init.cap = {16, 16, 1, 1, 0};
        init.qp_type = wish.type;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.pd = a.pd;
        init.send_ops_flags = wish.ops;
        EXPECT_EQ(ibv_create_qp_ex(a.context.get(), &init), nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP);
    }
}

}  // namespace
}  // namespace urnic::e2e
