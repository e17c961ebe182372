// QP states: what each lets through, draining, flushing, and a fresh start (IBA 10.3.1).
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcState : public RcPair {
  protected:
    void make_pair(const SimHost::Options& host = {}) {
        a_ = std::make_unique<SimHost>(net_, "A", 1, host);
        b_ = std::make_unique<SimHost>(net_, "B", 2, host);
        a_mem_ = &a_->add_region(kRegionBytes);
        b_mem_ = &b_->add_region(kRegionBytes);
        a_mem_->fill_pattern(1);
    }
    int to_sqd(SimHost& host, bool notify) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrEnSqdAsyncNotify;
        attr.state = QpState::kSqd;
        attr.en_sqd_async_notify = notify ? 1 : 0;
        return host.modify(attr);
    }
};

TEST_F(RcState, RtrReceivesAndReportsTheFirstPacket) {
    make_pair();
    a_->to_init();
    b_->to_init();
    post_receives(2, 64);
    a_->to_rtr(*b_, {}, 2000);
    a_->to_rts({}, 1000);
    a_->post_send(write(1, 8));
    net_.run_for(5000);
    EXPECT_EQ(b_->counters.drop_qp_state.value(), 1U);  // still in INIT
    b_->to_rtr(*a_, {}, 1000);
    ASSERT_TRUE(net_.run());
    a_->post_send(send(2, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kCommEst));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
}

TEST_F(RcState, NothingIsSentBeforeRts) {
    make_pair();
    a_->to_init();
    b_->to_init();
    b_->to_rtr(*a_, {}, 1000);
    a_->post_send(write(1, 8));
    net_.run_for(1000);
    a_->to_rtr(*b_, {}, 2000);
    net_.run_for(1000);
    EXPECT_THAT(net_.take_trace(), IsEmpty());
    a_->to_rts({}, 1000);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
}

TEST_F(RcState, SqdFinishesTheMessageInHandAndReports) {
    connect_pair({.mtu = 256});
    a_->post_send(write(1, 1024));
    a_->post_send(write(2, 8));
    EXPECT_TRUE(a_->qp().progress(0, 2, *a_));
    ASSERT_EQ(to_sqd(*a_, true), 0);
    abi::QpAttr attr{};
    a_->qp().query(attr);
    EXPECT_EQ(attr.state, QpState::kSqd);
    EXPECT_EQ(attr.sq_draining, 1);
    EXPECT_THAT(a_->events, IsEmpty());
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_THAT(a_->events, ElementsAre(AsyncEventType::kSqDrained));
    a_->qp().query(attr);
    EXPECT_EQ(attr.sq_draining, 0);
    b_->post_send({.opcode = WrOpcode::kWrite,
                   .wr_id = 9,
                   .sge = {b_mem_->sge(0, 8)},
                   .remote_addr = a_mem_->addr(65536),
                   .rkey = a_mem_->key()});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_send(), ElementsAre(ok(9)));  // the responder goes on in SQD
    EXPECT_EQ(a_->events.size(), 1U);
    ASSERT_EQ(a_->to_state(QpState::kRts), 0);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(2)));
}

TEST_F(RcState, SqdOfAnIdleQueueIsDrainedAtOnce) {
    connect_pair();
    ASSERT_EQ(to_sqd(*a_, true), 0);
    EXPECT_THAT(a_->events, ElementsAre(AsyncEventType::kSqDrained));
}

TEST_F(RcState, EachDrainIsReported) {
    connect_pair();
    for (std::size_t i = 1; i <= 2; ++i) {
        ASSERT_EQ(to_sqd(*a_, true), 0);
        EXPECT_EQ(a_->events.size(), i);
        ASSERT_EQ(a_->to_state(QpState::kRts), 0);
    }
}

TEST_F(RcState, SqdIsSilentWhenNobodyAsked) {
    connect_pair();
    ASSERT_EQ(to_sqd(*a_, false), 0);
    EXPECT_THAT(a_->events, IsEmpty());
}

TEST_F(RcState, SqdStillRetransmits) {
    connect_pair({.timeout = 1});
    net_.lose = [count = 0](const SentPacket& packet) mutable { return packet.from == "A" && ++count == 1; };
    a_->post_send(write(1, 8));
    net_.run_for(1000);
    ASSERT_EQ(to_sqd(*a_, true), 0);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_THAT(a_->events, ElementsAre(AsyncEventType::kSqDrained));
}

TEST_F(RcState, ModifyToErrorFlushesBothQueuesInOrder) {
    connect_pair();
    net_.lose = [](const SentPacket&) { return true; };
    for (std::uint64_t i = 0; i < 200; ++i) {  // more than the window holds
        SendRequest request = write(i, 8);
        request.flags = i % 2 == 0 ? kSendSignaled : 0;
        a_->post_send(request);
        a_->post_recv(1000 + i, {});
    }
    net_.run_for(1000);
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    const auto sends = a_->poll_send();
    const auto receives = a_->poll_recv();
    ASSERT_EQ(sends.size(), 200U);
    ASSERT_EQ(receives.size(), 200U);
    for (std::uint64_t i = 0; i < 200; ++i) {
        EXPECT_EQ(sends[i], flushed(i));
        EXPECT_EQ(receives[i], flushed(1000 + i));
    }
    EXPECT_EQ(a_->qp().deadline(), kNever);
}

TEST_F(RcState, WhatIsPostedInErrorIsFlushed) {
    connect_pair();
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    a_->post_send(write(1, 8));
    a_->post_recv(2, {});
    net_.run_for(1000);
    EXPECT_THAT(a_->poll_send(), ElementsAre(flushed(1)));
    EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(2)));
    EXPECT_THAT(net_.take_trace(), IsEmpty());
}

TEST_F(RcState, ErrorBeforeConnectionFlushesReceives) {
    make_pair();
    a_->to_init();
    a_->post_recv(2, {});
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(2)));
}

TEST_F(RcState, LongQueuesAreFlushedInSeveralRounds) {
    connect_pair({}, {.send_entries = 2048, .recv_entries = 2048});
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    for (std::uint64_t i = 0; i < 2000; ++i) {
        a_->post_send(write(i, 8));
        a_->post_recv(i, {});
    }
    EXPECT_TRUE(a_->qp().progress(0, 64, *a_));
    EXPECT_LT(a_->poll_send().size(), 2000U);
    net_.run_for(1);
    EXPECT_LT(a_->poll_send().size(), 2000U);
    EXPECT_FALSE(a_->qp().progress(0, 64, *a_));
}

TEST_F(RcState, ErrorIsDeafAndDumb) {
    connect_pair();
    ASSERT_EQ(b_->to_state(QpState::kErr), 0);
    a_->post_send(write(1, 8));
    net_.run_for(5000);
    EXPECT_EQ(net_.take_packets().size(), 1U);
    EXPECT_EQ(b_->counters.drop_qp_state.value(), 1U);
    EXPECT_FALSE(same(0, 8));
}

TEST_F(RcState, ErrorFromOutsideTakesBackWhatWasOwed) {
    connect_pair();
    const std::byte data[8] = {};
    deliver_to_b(to_b_memory(wire::kReadRequest, 1000, 8));
    deliver_to_b(to_b_memory(wire::kWriteOnly, 1007, 8), data);  // a sequence error
    ASSERT_EQ(b_->to_state(QpState::kErr), 0);
    net_.run_for(1000);
    EXPECT_THAT(net_.take_trace(), IsEmpty());
}

TEST_F(RcState, ResetMakesTheQpAsNew) {
    connect_pair({.mtu = 256, .timeout = 1});
    post_receives(3, 64);
    a_->post_send(send(0, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0)));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    net_.lose = [](const SentPacket&) { return true; };
    a_->post_send(read(1, 4096));
    a_->post_send(send(2, 8));
    net_.run_for(3000);
    ASSERT_EQ(a_->to_state(QpState::kReset), 0);
    ASSERT_EQ(b_->to_state(QpState::kReset), 0);
    EXPECT_THAT(a_->poll_send(), IsEmpty());
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    EXPECT_EQ(a_->qp().deadline(), kNever);
    abi::QpAttr attr{};
    a_->qp().query(attr);
    EXPECT_EQ(attr.state, QpState::kReset);
    EXPECT_EQ(attr.dest_qp_num, 0U);
    net_.lose = nullptr;
    (void)net_.take_trace();
    connect(*a_, *b_, {.psn_a = 77});
    post_receives(1, 64);
    a_->post_send(send(5, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(5)));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(103)));
    EXPECT_THAT(net_.take_trace(), ElementsAre("5us A SEND Only psn=77 len=8 ackreq",  //
                                               "6us B Acknowledge psn=77 msn=1"));
    // What was posted before the reset is gone.
    a_->post_send(send(6, 8));
    net_.run_for(5000);
    EXPECT_EQ(b_->counters.send_rnr_err.value(), 1U);
}

TEST_F(RcState, QueryTellsEveryAttribute) {
    connect_pair({.mtu = 2048,
                  .psn_a = 5,
                  .psn_b = 6,
                  .timeout = 9,
                  .retry_cnt = 3,
                  .rnr_retry = 2,
                  .min_rnr_timer = 11,
                  .max_rd_atomic = 4,
                  .max_dest_rd_atomic = 8});
    a_->post_send(write(1, 8));
    ASSERT_TRUE(net_.run());
    abi::QpAttr attr{};
    a_->qp().query(attr);
    EXPECT_EQ(attr.state, QpState::kRts);
    EXPECT_EQ(attr.cur_state, QpState::kRts);
    EXPECT_EQ(attr.path_mtu, 4);
    EXPECT_EQ(attr.sq_psn, 6U);
    EXPECT_EQ(attr.rq_psn, 6U);
    EXPECT_EQ(attr.timeout, 9);
    EXPECT_EQ(attr.retry_cnt, 3);
    EXPECT_EQ(attr.rnr_retry, 2);
    EXPECT_EQ(attr.min_rnr_timer, 11);
    EXPECT_EQ(attr.max_rd_atomic, 4);
    EXPECT_EQ(attr.max_dest_rd_atomic, 8);
    EXPECT_EQ(attr.dest_qp_num, 2U);
    EXPECT_EQ(attr.access_flags, kAllAccess);
    EXPECT_EQ(attr.port_num, 1);
    EXPECT_EQ(attr.av.is_global, 1);
    EXPECT_EQ(attr.sq_draining, 0);
    b_->qp().query(attr);
    EXPECT_EQ(attr.rq_psn, 6U);  // after one packet with PSN 5
}

TEST_F(RcState, RefusedModifyChangesNothing) {
    connect_pair();
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrMinRnrTimer | kQpAttrDestQpn;
    attr.state = QpState::kRts;
    attr.min_rnr_timer = 3;
    EXPECT_EQ(a_->modify(attr), EINVAL);
    a_->qp().query(attr);
    EXPECT_EQ(attr.min_rnr_timer, 12);
    EXPECT_EQ(attr.dest_qp_num, 2U);
}

}  // namespace
}  // namespace urnic::sim
