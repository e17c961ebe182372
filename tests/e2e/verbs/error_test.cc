// What goes wrong on a connection, as the verbs API reports it on both sides.
#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

class Errors : public testing::Test {
  protected:
    void SetUp() override { make({}); }
    void make(const PathOptions& path) {
        a_ = std::make_unique<Endpoint>("urnic0");
        b_ = std::make_unique<Endpoint>("urnic1");
        connect(*a_, *b_, path);
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    static void expect_status(const Endpoint& side, std::uint64_t wr_id, ibv_wc_status status) {
        const ibv_wc completion = side.poll_one();
        EXPECT_EQ(completion.status, status) << ibv_wc_status_str(completion.status);
        EXPECT_EQ(completion.wr_id, wr_id);
    }
    /// The next async event of the device must be this one, for this QP.
    static void expect_event(const Endpoint& side, ibv_event_type type) {
        EXPECT_EQ(next_event(side.context.get(), type).element.qp, side.qp);
    }
    /// Posts a request that must fail, and one behind it that must be flushed.
    void fails(ibv_send_wr wr, ibv_wc_status status) {
        wr.wr_id = 1;
        a_->post(wr);
        ibv_sge sge = a_->sge(0, 8);
        ibv_send_wr behind = rdma(IBV_WR_RDMA_WRITE, 2, &sge, 1, *b_, 0);
        ibv_send_wr* bad = nullptr;
        // Refused or flushed: the error may have reached the QP before the second request.
        const bool posted = ibv_post_send(a_->qp, &behind, &bad) == 0;
        expect_status(*a_, 1, status);
        if (posted) expect_status(*a_, 2, IBV_WC_WR_FLUSH_ERR);
        EXPECT_EQ(a_->state(), IBV_QPS_ERR);
    }

    std::unique_ptr<Endpoint> a_, b_;
};

// IBA 11.6.2
TEST_F(Errors, ARefusedWriteWithImmediateFailsTheReceiveThatItTakes) {
    b_->post_recv(9, {b_->sge(0, 64)});
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE_WITH_IMM, 1, &sge, 1, *b_, 0);
    wr.wr.rdma.rkey ^= 0x5a5a5a5aU;
    fails(wr, IBV_WC_REM_ACCESS_ERR);
    expect_status(*b_, 9, IBV_WC_LOC_ACCESS_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_ERR);
}

// IBA 9.9.6.3, class J: what fails is the responder's own business.
TEST_F(Errors, ASendThatInvalidatesAWrongKeyHasArrived) {
    b_->post_recv(9, {b_->sge(0, 64)});
    fill(a_->at(0), 64, 3);
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV, 1, &sge, 1);
    wr.invalidate_rkey = b_->mr->rkey;  // a region's
    a_->post(wr);
    a_->expect_success(1, IBV_WC_SEND);
    expect_status(*b_, 9, IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_ERR);
    EXPECT_EQ(first_difference(b_->at(0), 64, 3), -1);
}

TEST_F(Errors, WrongRemoteKey) {
    std::memset(b_->at(0), 0x11, 64);
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
    wr.wr.rdma.rkey ^= 0x5a5a5a5aU;
    fails(wr, IBV_WC_REM_ACCESS_ERR);
    expect_event(*b_, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_ERR);
    EXPECT_EQ(first_other(b_->at(0), 64, 0x11), -1);
}

TEST_F(Errors, RemoteRangeTooLong) {
    ibv_sge sge = a_->sge(0, 4096);
    const std::size_t end = b_->buffer.size() - 4095;
    fails(rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, end), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(first_other(b_->at(end), 4095, 0), -1);
}

TEST_F(Errors, RemoteReadBeyondTheRegion) {
    ibv_sge sge = a_->sge(0, 4096);
    fails(rdma(IBV_WR_RDMA_READ, 1, &sge, 1, *b_, b_->buffer.size() - 4095), IBV_WC_REM_ACCESS_ERR);
    expect_event(*b_, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(Errors, AccessThatTheQpDoesNotGrant) {
    make({.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
    ibv_sge sge = a_->sge(0, 64);
    fails(rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0), IBV_WC_REM_INV_REQ_ERR);  // IBA 9.7.4.1.5
}

TEST_F(Errors, AccessThatTheRegionDoesNotGrant) {
    ibv_mr* read_only = ibv_reg_mr(b_->pd, b_->at(0), 4096, IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(read_only, nullptr);
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
    wr.wr.rdma.rkey = read_only->rkey;
    fails(wr, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(read_only), 0);
}

TEST_F(Errors, KeyOfAnotherProtectionDomain) {
    const Endpoint other("urnic1");
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, other, 0);
    fails(wr, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, KeyOfADeregisteredRegion) {
    ibv_mr* gone = ibv_reg_mr(b_->pd, b_->at(0), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ASSERT_NE(gone, nullptr);
    const std::uint32_t rkey = gone->rkey;
    ASSERT_EQ(ibv_dereg_mr(gone), 0);
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
    wr.wr.rdma.rkey = rkey;
    fails(wr, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Errors, MisalignedAtomic) {
    ibv_sge sge = a_->sge(0, 8);
    fails(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &sge, *b_, 4, 1), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(first_other(b_->at(0), 64, 0), -1);
}

TEST_F(Errors, WrongLocalKey) {
    ibv_sge sge = a_->sge(0, 64);
    sge.lkey ^= 0x1234567U;
    fails(rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0), IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_RTS);
}

TEST_F(Errors, LocalRangeTooLong) {
    ibv_sge sge = a_->sge(a_->buffer.size() - 63, 64);
    fails(rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, ReceiveBufferTooSmall) {
    b_->post_recv(9, {b_->sge(0, 63)});
    ibv_sge sge = a_->sge(0, 64);
    fails(request(IBV_WR_SEND, 1, &sge, 1), IBV_WC_REM_INV_REQ_ERR);
    expect_status(*b_, 9, IBV_WC_LOC_LEN_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_ERR);
}

TEST_F(Errors, ReceiveBufferWithAWrongKey) {
    ibv_sge wrong = b_->sge(0, 64);
    wrong.lkey ^= 0x1234567U;
    b_->post_recv(9, {wrong});
    ibv_sge sge = a_->sge(0, 64);
    fails(request(IBV_WR_SEND, 1, &sge, 1), IBV_WC_REM_OP_ERR);
    expect_status(*b_, 9, IBV_WC_LOC_PROT_ERR);
}

TEST_F(Errors, NoReceiveBuffer) {
    make({.rnr_retry = 1});
    ibv_sge sge = a_->sge(0, 64);
    fails(request(IBV_WR_SEND, 1, &sge, 1), IBV_WC_RNR_RETRY_EXC_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_RTS);
}

TEST_F(Errors, AReceiverThatIsLateIsWaitedFor) {
    fill(a_->at(0), 64, 3);
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, 1);
    a_->post(wr);
    EXPECT_TRUE(a_->quiet());
    b_->post_recv(9, {b_->sge(0, 64)});
    a_->expect_success(1, IBV_WC_SEND);
    b_->expect_success(9, IBV_WC_RECV);
    EXPECT_EQ(first_difference(b_->at(0), 64, 3), -1);
}

TEST_F(Errors, APeerThatIsGone) {
    make({.timeout = 10, .retry_cnt = 3});
    ASSERT_EQ(ibv_destroy_qp(b_->qp), 0);
    b_->qp = nullptr;
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
    fails(wr, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Errors, DrainingSaysWhenItIsDone) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    ASSERT_EQ(ibv_modify_qp(a_->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    expect_event(*a_, IBV_EVENT_SQ_DRAINED);
    EXPECT_EQ(a_->state(), IBV_QPS_SQD);
}

TEST_F(Errors, TransitionsThatAreNotInTheTable) {
    EXPECT_NE(to_state(*a_, IBV_QPS_INIT), 0);
    EXPECT_EQ(a_->state(), IBV_QPS_RTS);
    const Endpoint fresh("urnic0");
    EXPECT_NE(to_state(fresh, IBV_QPS_RTS), 0);
    EXPECT_NE(to_rtr(fresh, *b_, 1), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    EXPECT_NE(ibv_modify_qp(fresh.qp, &attr, IBV_QP_STATE), 0) << "attributes are missing";
    attr.port_num = 9;
    EXPECT_NE(
        ibv_modify_qp(fresh.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    EXPECT_EQ(fresh.state(), IBV_QPS_RESET);
}

TEST_F(Errors, WhatTheDeviceDoesNotHaveIsNotSupported) {
    ibv_qp_init_attr init{};
    init.send_cq = a_->cq;
    init.recv_cq = a_->cq;
    init.cap = {
        .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = IBV_QPT_RAW_PACKET;
    EXPECT_EQ(ibv_create_qp(a_->pd, &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Errors, OneConnectionsErrorLeavesTheOthersAlone) {
    const Endpoint c("urnic0");
    const Endpoint d("urnic1");
    connect(c, d);
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
    wr.wr.rdma.rkey ^= 1U;
    fails(wr, IBV_WC_REM_ACCESS_ERR);
    fill(c.at(0), 5000, 4);
    ibv_sge good = c.sge(0, 5000);
    ibv_send_wr write = rdma(IBV_WR_RDMA_WRITE, 1, &good, 1, d, 0);
    c.post(write);
    c.expect_success(1, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(first_difference(d.at(0), 5000, 4), -1);
}

}  // namespace
}  // namespace urnic::e2e
