// The ibv_wr_* calls and the extended CQ.
#include <arpa/inet.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

class Extended : public testing::Test {
  protected:
    void SetUp() override {
        a_ = std::make_unique<Endpoint>("urnic0", EndpointOptions{.extended = true});
        b_ = std::make_unique<Endpoint>("urnic1", EndpointOptions{.extended = true});
        connect(*a_, *b_);
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }

    struct Completion {
        std::uint64_t wr_id = 0;
        ibv_wc_status status = IBV_WC_GENERAL_ERR;
        ibv_wc_opcode opcode = IBV_WC_SEND;
        std::uint32_t byte_len = 0, imm = 0, qp_num = 0, vendor_err = 0;
        unsigned flags = 0;
    };
    static Completion read(ibv_cq_ex* cq) {
        return {.wr_id = cq->wr_id,
                .status = cq->status,
                .opcode = ibv_wc_read_opcode(cq),
                .byte_len = ibv_wc_read_byte_len(cq),
                .imm = ibv_wc_read_imm_data(cq),
                .qp_num = ibv_wc_read_qp_num(cq),
                .vendor_err = ibv_wc_read_vendor_err(cq),
                .flags = ibv_wc_read_wc_flags(cq)};
    }
    /// Waits until `count` completions have come, taking as many as there are in each polling block.
    static std::vector<Completion> take(const Endpoint& side, std::size_t count) {
        std::vector<Completion> taken;
        while (taken.size() < count) {
            ibv_poll_cq_attr attr{};
            int started = ENOENT;
            if (!comes([&] { return (started = ibv_start_poll(side.cq_ex, &attr)) != ENOENT; })) break;
            EXPECT_EQ(started, 0);
            if (started != 0) break;
            do taken.push_back(read(side.cq_ex));
            while (taken.size() < count && ibv_next_poll(side.cq_ex) == 0);
            ibv_end_poll(side.cq_ex);
        }
        EXPECT_EQ(taken.size(), count) << "completions came";
        taken.resize(count);
        return taken;
    }

    std::unique_ptr<Endpoint> a_, b_;
};

TEST_F(Extended, EveryBuilder) {
    fill(a_->at(0), 1000, 1);
    fill(b_->at(100'000), 500, 2);
    *reinterpret_cast<std::uint64_t*>(b_->at(200'000)) = 41;
    b_->post_recv(21, {b_->sge(20'000, 2000)});
    b_->post_recv(22, {b_->sge(30'000, 2000)});
    b_->post_recv(23, {});
    ibv_qp_ex* qp = a_->qp_ex;
    const std::uint32_t lkey = a_->mr->lkey;
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, lkey, a_->address(0), 1000);
    qp->wr_id = 2;
    ibv_wr_send_imm(qp, htonl(77));
    ibv_sge list[2] = {a_->sge(0, 300), a_->sge(300, 700)};
    ibv_wr_set_sge_list(qp, 2, list);
    qp->wr_id = 3;
    ibv_wr_rdma_write(qp, b_->mr->rkey, b_->address(40'000));
    ibv_wr_set_inline_data(qp, a_->at(0), 100);
    qp->wr_id = 4;
    ibv_wr_rdma_write_imm(qp, b_->mr->rkey, b_->address(50'000), htonl(78));
    const ibv_data_buf pieces[2] = {{a_->at(0), 60}, {a_->at(60), 40}};
    ibv_wr_set_inline_data_list(qp, 2, pieces);
    qp->wr_id = 5;
    ibv_wr_rdma_read(qp, b_->mr->rkey, b_->address(100'000));
    ibv_wr_set_sge(qp, lkey, a_->address(60'000), 500);
    qp->wr_id = 6;
    ibv_wr_atomic_fetch_add(qp, b_->mr->rkey, b_->address(200'000), 1);
    ibv_wr_set_sge(qp, lkey, a_->address(70'000), 8);
    qp->wr_id = 7;
    ibv_wr_atomic_cmp_swp(qp, b_->mr->rkey, b_->address(200'000), 42, 99);
    ibv_wr_set_sge(qp, lkey, a_->address(70'008), 8);
    ASSERT_EQ(ibv_wr_complete(qp), 0);

    constexpr ibv_wc_opcode kOpcodes[] = {IBV_WC_SEND,       IBV_WC_SEND,      IBV_WC_RDMA_WRITE,
                                          IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_FETCH_ADD,
                                          IBV_WC_COMP_SWAP};
    const std::vector<Completion> sent = take(*a_, 7);
    for (std::size_t i = 0; i < sent.size(); ++i) {
        EXPECT_EQ(sent[i].wr_id, i + 1);
        EXPECT_EQ(sent[i].status, IBV_WC_SUCCESS) << ibv_wc_status_str(sent[i].status);
        EXPECT_EQ(sent[i].opcode, kOpcodes[i]);
        EXPECT_EQ(sent[i].qp_num, a_->qp->qp_num);
    }
    const std::vector<Completion> received = take(*b_, 3);
    EXPECT_EQ(received[0].byte_len, 1000U);
    EXPECT_EQ(received[0].flags & IBV_WC_WITH_IMM, 0U);
    EXPECT_EQ(received[1].imm, htonl(77));
    EXPECT_EQ(received[2].imm, htonl(78));
    EXPECT_EQ(received[2].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(received[2].byte_len, 100U);
    EXPECT_EQ(first_difference(b_->at(20'000), 1000, 1), -1);
    EXPECT_EQ(first_difference(b_->at(30'000), 1000, 1), -1);
    EXPECT_EQ(first_difference(b_->at(40'000), 100, 1), -1);
    EXPECT_EQ(first_difference(b_->at(50'000), 100, 1), -1);
    EXPECT_EQ(first_difference(a_->at(60'000), 500, 2), -1);
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(a_->at(70'000)), 41U);
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(a_->at(70'008)), 42U);
    EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(b_->at(200'000)), 99U);
}

TEST_F(Extended, AbortDropsWhatWasBuilt) {
    ibv_qp_ex* qp = a_->qp_ex;
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    qp->wr_id = 1;
    ibv_wr_rdma_write(qp, b_->mr->rkey, b_->address(0));
    ibv_wr_set_sge(qp, a_->mr->lkey, a_->address(0), 100);
    ibv_wr_abort(qp);
    fill(a_->at(0), 100, 5);
    EXPECT_TRUE(a_->quiet());
    EXPECT_EQ(first_other(b_->at(0), 100, 0), -1);
    // The queue works on.
    ibv_wr_start(qp);
    qp->wr_id = 2;
    ibv_wr_rdma_write(qp, b_->mr->rkey, b_->address(0));
    ibv_wr_set_sge(qp, a_->mr->lkey, a_->address(0), 100);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_EQ(take(*a_, 1)[0].wr_id, 2U);
    EXPECT_EQ(first_difference(b_->at(0), 100, 5), -1);
}

TEST_F(Extended, AFullQueueFailsTheWholeBatch) {
    ibv_qp_ex* qp = a_->qp_ex;
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    for (int i = 0; i < 100'000; ++i) {
        qp->wr_id = static_cast<std::uint64_t>(i);
        ibv_wr_rdma_write(qp, b_->mr->rkey, b_->address(0));
        ibv_wr_set_sge(qp, a_->mr->lkey, a_->address(0), 8);
    }
    EXPECT_EQ(ibv_wr_complete(qp), ENOMEM);
    EXPECT_TRUE(a_->quiet());
}

TEST_F(Extended, AnEmptyCqSaysEnoentAndPollingGoesOn) {
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(a_->cq_ex, &attr), ENOENT);
    for (std::uint32_t round = 1; round <= 3000; ++round) {  // several times round every ring
        ibv_sge sge = a_->sge(0, 16);
        fill(a_->at(0), 16, round);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, round, &sge, 1, *b_, 0);
        a_->post(wr);
        ASSERT_EQ(take(*a_, 1)[0].wr_id, round);
        ASSERT_EQ(first_difference(b_->at(0), 16, round), -1);
    }
    EXPECT_EQ(ibv_start_poll(a_->cq_ex, &attr), ENOENT);
}

}  // namespace
}  // namespace urnic::e2e
