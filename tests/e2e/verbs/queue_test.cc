// Queues as such: their limits, flush, resize, and the events that wake a program.
#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

class Queue : public testing::Test {
  protected:
    void make(const EndpointOptions& options = {}, const PathOptions& path = {}) {
        a_ = std::make_unique<Endpoint>("urnic0", options);
        b_ = std::make_unique<Endpoint>("urnic1", options);
        connect(*a_, *b_, path);
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    void write(std::uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
        ibv_sge sge = a_->sge(0, 64);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, wr_id, &sge, 1, *b_, 0, flags);
        a_->post(wr);
    }
    void send(std::uint64_t wr_id, unsigned flags) {
        ibv_sge sge = a_->sge(0, 64);
        ibv_send_wr wr = request(IBV_WR_SEND, wr_id, &sge, 1, flags);
        a_->post(wr);
    }
    /// Returns whether the channel becomes readable within the time.
    static bool wakes(const ibv_comp_channel* channel, int timeout_ms) {
        pollfd waiting{channel->fd, POLLIN, 0};
        return poll(&waiting, 1, timeout_ms) == 1;
    }
    static void take_event(const Endpoint& side) {
        ibv_cq* cq = nullptr;
        void* cq_context = nullptr;
        ASSERT_TRUE(becomes_readable(side.channel->fd)) << "no event came";
        ASSERT_EQ(ibv_get_cq_event(side.channel, &cq, &cq_context), 0);
        EXPECT_EQ(cq, side.cq);
        EXPECT_EQ(cq_context, &side);
        ibv_ack_cq_events(cq, 1);
    }

    std::unique_ptr<Endpoint> a_, b_;
};

TEST_F(Queue, AFullSendQueueRefusesAndNamesTheRequest) {
    make({.max_send_wr = 16});
    // Nothing is sent while the queue drains: SQD holds what is posted.
    ASSERT_EQ(to_state(*a_, IBV_QPS_SQD), 0);
    int posted = 0;
    int result = 0;
    ibv_send_wr* bad = nullptr;
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, 0, &sge, 1, *b_, 0);
    for (; posted < 100'000; ++posted) {
        wr.wr_id = static_cast<std::uint64_t>(posted);
        result = ibv_post_send(a_->qp, &wr, &bad);
        if (result != 0) break;
    }
    EXPECT_EQ(result, ENOMEM);
    EXPECT_EQ(bad, &wr);
    EXPECT_GE(posted, 16);
    ASSERT_EQ(to_state(*a_, IBV_QPS_RTS), 0);
    for (int i = 0; i < posted; ++i) a_->expect_success(static_cast<std::uint64_t>(i), IBV_WC_RDMA_WRITE);
    write(7);
    a_->expect_success(7, IBV_WC_RDMA_WRITE);
}

TEST_F(Queue, ABadRequestInAListLeavesTheOnesBeforeIt) {
    make();
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr first = rdma(IBV_WR_RDMA_WRITE, 1, &sge, 1, *b_, 0);
    ibv_send_wr second = rdma(IBV_WR_RDMA_WRITE, 2, &sge, 17, *b_, 0);  // 16 elements at most
    ibv_send_wr third = rdma(IBV_WR_RDMA_WRITE, 3, &sge, 1, *b_, 0);
    first.next = &second;
    second.next = &third;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(a_->qp, &first, &bad), EINVAL);
    EXPECT_EQ(bad, &second);
    a_->expect_success(1, IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(a_->quiet());
    std::vector<ibv_sge> many(17, b_->sge(0, 8));
    ibv_recv_wr receive{};
    receive.sg_list = many.data();
    receive.num_sge = 17;
    ibv_recv_wr* bad_receive = nullptr;
    EXPECT_EQ(ibv_post_recv(b_->qp, &receive, &bad_receive), EINVAL);
    EXPECT_EQ(bad_receive, &receive);
}

TEST_F(Queue, PostingInTheWrongStateIsRefused) {
    const Endpoint a("urnic0");
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, 1);
    ibv_send_wr* bad = nullptr;
    EXPECT_NE(ibv_post_send(a.qp, &wr, &bad), 0);
    EXPECT_EQ(bad, &wr);
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    EXPECT_NE(ibv_post_recv(a.qp, &receive, &bad_receive), 0);
}

TEST_F(Queue, ErrorFlushesBothQueuesInOrder) {
    make();
    for (std::uint64_t i = 0; i < 50; ++i) a_->post_recv(100 + i, {a_->sge(0, 64)});
    ASSERT_EQ(to_state(*a_, IBV_QPS_SQD), 0);
    for (std::uint64_t i = 0; i < 50; ++i) write(i, i % 2 == 0 ? IBV_SEND_SIGNALED : 0);
    ASSERT_EQ(to_state(*a_, IBV_QPS_ERR), 0);
    std::uint64_t next_send = 0;
    std::uint64_t next_receive = 100;
    for (int i = 0; i < 100; ++i) {  // unsignaled requests complete too when they are flushed
        const ibv_wc completion = a_->poll_one();
        ASSERT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(completion.status);
        EXPECT_EQ(completion.wr_id, completion.wr_id < 100 ? next_send++ : next_receive++);
        // Programs tell receives by it (uDAPL), though an error has none.
        EXPECT_EQ((completion.opcode & IBV_WC_RECV) != 0, completion.wr_id >= 100);
    }
    EXPECT_EQ(next_send, 50U);
    EXPECT_EQ(next_receive, 150U);
    // What is posted from now on is flushed as well.
    write(200);
    a_->post_recv(300, {a_->sge(0, 64)});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(a_->poll_one().status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_TRUE(a_->quiet());
}

TEST_F(Queue, ResetForgetsAndTheQpWorksAgain) {
    make();
    a_->post_recv(1, {a_->sge(0, 64)});
    b_->post_recv(1, {b_->sge(0, 64)});
    ASSERT_EQ(to_state(*a_, IBV_QPS_RESET), 0);
    ASSERT_EQ(to_state(*b_, IBV_QPS_RESET), 0);
    EXPECT_TRUE(a_->quiet());
    connect(*a_, *b_);
    fill(a_->at(0), 64, 9);
    write(5);
    a_->expect_success(5, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(first_difference(b_->at(0), 64, 9), -1);
}

TEST_F(Queue, ResizeKeepsPendingCompletionsInOrder) {
    make({.cq_entries = 64});
    for (int round = 0; round < 10; ++round) {
        for (std::uint64_t i = 0; i < 40; ++i) write(i);
        // All 40 lie in the CQ when the last has been written.
        std::this_thread::sleep_for(std::chrono::milliseconds(round % 2 == 0 ? 20 : 0));
        const int wanted = round % 2 == 0 ? 500 : 80;
        ASSERT_EQ(ibv_resize_cq(a_->cq, wanted), 0);
        EXPECT_GE(a_->cq->cqe, wanted);
        for (std::uint64_t i = 0; i < 40; ++i) a_->expect_success(i, IBV_WC_RDMA_WRITE);
        EXPECT_TRUE(round != 9 || a_->quiet());
    }
    EXPECT_NE(ibv_resize_cq(a_->cq, 0), 0);
    EXPECT_NE(ibv_resize_cq(a_->cq, 1 << 30), 0);
    write(1);
    a_->expect_success(1, IBV_WC_RDMA_WRITE);
}

TEST_F(Queue, AnArmedCqWakesOnce) {
    make({.with_channel = true});
    ASSERT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
    EXPECT_FALSE(wakes(a_->channel, 20));
    write(1);
    take_event(*a_);
    a_->expect_success(1, IBV_WC_RDMA_WRITE);
    write(2);
    a_->expect_success(2, IBV_WC_RDMA_WRITE);
    EXPECT_FALSE(wakes(a_->channel, 50)) << "an event without arming";
    for (std::uint64_t round = 10; round < 200; ++round) {
        ASSERT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
        write(round);
        take_event(*a_);
        a_->expect_success(round, IBV_WC_RDMA_WRITE);
    }
}

TEST_F(Queue, SolicitedArmingWaitsForASolicitedMessage) {
    make({.with_channel = true});
    for (std::uint64_t i = 0; i < 3; ++i) b_->post_recv(i, {b_->sge(0, 64)});
    ASSERT_EQ(ibv_req_notify_cq(b_->cq, 1), 0);
    send(1, IBV_SEND_SIGNALED);
    a_->expect_success(1, IBV_WC_SEND);
    b_->expect_success(0, IBV_WC_RECV);
    EXPECT_FALSE(wakes(b_->channel, 50));
    send(2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
    take_event(*b_);
    a_->expect_success(2, IBV_WC_SEND);
    b_->expect_success(1, IBV_WC_RECV);
    // An error completion counts as solicited (IBA 11.4.2.2).
    ASSERT_EQ(ibv_req_notify_cq(b_->cq, 1), 0);
    ASSERT_EQ(to_state(*b_, IBV_QPS_ERR), 0);
    take_event(*b_);
}

TEST_F(Queue, ANonBlockingChannelSaysEagain) {
    make({.with_channel = true});
    ASSERT_EQ(fcntl(a_->channel->fd, F_SETFL, fcntl(a_->channel->fd, F_GETFL) | O_NONBLOCK), 0);
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(a_->channel, &cq, &cq_context), -1);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Queue, AQueueGoesRoundMoreOftenThanItHasSlots) {
    make({.max_send_wr = 8, .cq_entries = 8});
    for (std::uint64_t i = 0; i < 5000; ++i) {
        const bool signaled = i % 4 == 3;
        write(i, signaled ? IBV_SEND_SIGNALED : 0);
        if (signaled) a_->expect_success(i, IBV_WC_RDMA_WRITE);
    }
    EXPECT_TRUE(a_->quiet());
}

}  // namespace
}  // namespace urnic::e2e
