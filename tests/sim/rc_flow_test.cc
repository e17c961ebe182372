// What makes a requester wait: RNR, credits, fences, max_rd_atomic.
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcFlow : public RcPair {
  protected:
    void inject_ack(std::uint32_t psn, std::uint8_t syndrome, std::uint32_t msn = 0) {
        wire::PacketHeader header;
        header.opcode = wire::kAcknowledge;
        header.dest_qp = 1;
        header.psn = Psn(psn);
        header.aeth = {.syndrome = syndrome, .msn = msn};
        net_.inject(*b_, header);
    }
};

TEST_F(RcFlow, ReceiverNotReadyWaitsAndTriesAgain) {
    connect_pair({.min_rnr_timer = 2});  // 0.02 ms
    a_->post_send(send(1, 8));
    a_->post_send(write(2, 8, 64));
    net_.run_for(5000);
    post_receives(1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A SEND Only psn=1000 len=8 ackreq",    //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",   //
                                               "1us B Acknowledge psn=1000 RNR=2",         //
                                               "22us A SEND Only psn=1000 len=8 ackreq",   //
                                               "22us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "23us B Acknowledge psn=1001 msn=2"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_EQ(b_->counters.send_rnr_err.value(), 1U);
    EXPECT_EQ(a_->counters.rcvd_rnr_err.value(), 1U);
}

TEST_F(RcFlow, RnrRetriesAreCounted) {
    connect_pair({.rnr_retry = 2, .min_rnr_timer = 1});
    a_->post_send(send(1, 8));
    a_->post_send(send(2, 8));
    ASSERT_TRUE(net_.run());
    const auto packets = net_.take_packets();
    EXPECT_EQ(std::count_if(packets.begin(), packets.end(),
                            [](const SentPacket& p) { return p.from == "A" && p.header.psn == Psn(1000); }),
              3);
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRnrRetryExcErr}, flushed(2)));
    EXPECT_EQ(a_->qp().state(), QpState::kErr);
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

TEST_F(RcFlow, RnrRetrySevenNeverEnds) {
    connect_pair({.retry_cnt = 0, .rnr_retry = 7, .min_rnr_timer = 1});
    a_->post_send(send(1, 8));
    net_.run_for(10'000'000);
    EXPECT_GT(b_->counters.send_rnr_err.value(), 500U);
    post_receives(1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
}

TEST_F(RcFlow, RepeatedRnrNakIsOneWait) {
    connect_pair({.timeout = 0, .rnr_retry = 1});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(send(1, 8));
    net_.run_for(1000);
    for (int i = 0; i < 3; ++i) {
        inject_ack(1000, wire::kSyndromeRnrNak | 2);  // 0.02 ms
        net_.run_for(4000);
    }
    EXPECT_EQ(a_->qp().state(), QpState::kRts);
    EXPECT_EQ(a_->qp().deadline(), 22'000U);  // 1 us, 1 us on the way, 20 us
}

TEST_F(RcFlow, RnrNakShowsThatTheTransportWorks) {
    connect_pair({.timeout = 1, .retry_cnt = 1, .min_rnr_timer = 1});
    net_.lose = [count = 0](const SentPacket& packet) mutable {
        ++count;
        return packet.from == "A" && (count == 1 || count == 4);  // lost, RNR NAK, lost again
    };
    a_->post_send(send(1, 8));
    net_.run_for(30'000);
    post_receives(1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 2U);
}

TEST_F(RcFlow, WriteWithImmediateWaitsForAReceiveWithItsLastPacket) {
    connect_pair({.min_rnr_timer = 1});
    a_->post_send(rdma(WrOpcode::kWriteWithImm, 1, 2048));
    net_.run_for(5000);
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    post_receives(1, 0);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_THAT(net_.take_trace(),
                ElementsAre("0us A WRITE First psn=1000 len=1024",                        //
                            "0us A WRITE Last with Immediate psn=1001 len=1024 ackreq",   //
                            "1us B Acknowledge psn=1001 RNR=1",                           //
                            "12us A WRITE Last with Immediate psn=1001 len=1024 ackreq",  //
                            "13us B Acknowledge psn=1001 msn=1"));
    EXPECT_TRUE(same(0, 2048));
}

TEST_F(RcFlow, FenceWaitsForReads) {
    connect_pair();
    SendRequest fenced = write(2, 8, 64);
    fenced.flags |= kSendFence;
    a_->post_send(read(1, 8));
    a_->post_send(fenced);
    a_->post_send(write(3, 8, 128));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A READ Request psn=1000 dma=8 ackreq",       //
                                               "1us B READ Response Only psn=1000 len=8 msn=1",  //
                                               "2us A WRITE Only psn=1001 len=8 ackreq",         //
                                               "2us A WRITE Only psn=1002 len=8 ackreq",         //
                                               "3us B Acknowledge psn=1002 msn=3"));
}

TEST_F(RcFlow, FenceDoesNotWaitForWrites) {
    connect_pair();
    SendRequest fenced = write(2, 8, 64);
    fenced.flags |= kSendFence;
    a_->post_send(write(1, 8));
    a_->post_send(fenced);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "1us B Acknowledge psn=1001 msn=2"));
}

TEST_F(RcFlow, RequesterKeepsToMaxRdAtomic) {
    connect_pair({.max_rd_atomic = 2, .max_dest_rd_atomic = 2});
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_->post_send(read(i, 8, 64 * i));
    }
    a_->post_send(fetch_add(3, 1, 256));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A READ Request psn=1000 dma=8 ackreq",       //
                                               "0us A READ Request psn=1001 dma=8 ackreq",       //
                                               "1us B READ Response Only psn=1000 len=8 msn=2",  //
                                               "1us B READ Response Only psn=1001 len=8 msn=2",  //
                                               "2us A READ Request psn=1002 dma=8 ackreq",       //
                                               "2us A FetchAdd psn=1003 ackreq",                 //
                                               "3us B READ Response Only psn=1002 len=8 msn=4",  //
                                               "3us B ATOMIC Acknowledge psn=1003 msn=4"));
}

TEST_F(RcFlow, ResponderRefusesMoreThanMaxDestRdAtomic) {
    connect_pair({.max_rd_atomic = 4, .max_dest_rd_atomic = 3});
    for (std::uint64_t i = 0; i < 4; ++i) {
        a_->post_send(read(i, 8, 64 * i));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), ok(1), ok(2), Done{3, WcStatus::kRemInvReqErr}));
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpReqErr));
}

TEST_F(RcFlow, ReadWithoutRdAtomicIsALocalError) {
    connect_pair({.max_rd_atomic = 0});
    a_->post_send(read(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kLocQpOpErr}));
}

TEST_F(RcFlow, AcknowledgementsShowCredits) {
    connect_pair();
    post_receives(14, 64);
    a_->post_send(send(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(net_.take_packets().back().header.aeth.syndrome, 7);  // 13 left: 12 is the next code below
    post_receives(100, 64);
    a_->post_send(write(2, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(net_.take_packets().back().header.aeth.syndrome, 13);  // 113 left: 96
}

TEST_F(RcFlow, CreditsCountWhatIsPostedWhateverWasAcknowledged) {
    connect_pair({}, {.recv_entries = 2});
    const std::byte data[8] = {};
    for (std::uint32_t i = 0; i < 3; ++i) {
        if (i != 1) {
            post_receives(2, 8);
        }
        wire::PacketHeader header = to_b_memory(wire::kSendOnly, 1000 + i, 0);
        header.ack_req = i == 2;
        deliver_to_b(header, data);
    }
    (void)b_->qp().progress(net_.now(), 64, *b_);
    EXPECT_EQ(net_.take_packets().back().header.aeth.syndrome, 1);
}

TEST_F(RcFlow, FirstPacketBeyondTheCreditsNeedNotWaitForWhatIsUnderWay) {
    connect_pair();
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(write(1, 8));
    net_.run_for(1000);
    inject_ack(1000, 1, 1);  // room for one more message
    net_.run_for(5000);
    (void)net_.take_trace();
    a_->post_send(write(2, 8));
    a_->post_send(send(3, 8));
    a_->post_send(send(4, 8));
    net_.run_for(1000);
    EXPECT_THAT(net_.take_trace(), ElementsAre("6us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "6us A SEND Only psn=1002 len=8 ackreq"));
}

TEST_F(RcFlow, WithoutCreditsOneMessageGoesAtATime) {
    connect_pair();
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(send(1, 8));
    net_.run_for(1000);
    inject_ack(1000, 0, 1);  // no credits
    net_.run_for(5000);
    (void)net_.take_trace();
    for (std::uint64_t i = 2; i <= 4; ++i) {
        a_->post_send(send(i, 8));
    }
    net_.run_for(5000);
    EXPECT_EQ(net_.take_packets().size(), 1U);
    inject_ack(1001, 0, 2);
    net_.run_for(5000);
    EXPECT_EQ(net_.take_packets().size(), 2U);  // the ACK and one more
    inject_ack(1002, 1, 3);
    net_.run_for(5000);
    EXPECT_EQ(net_.take_packets().size(), 2U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3)));
}

TEST_F(RcFlow, WithoutCreditsOnePacketOfALongMessageGoes) {
    connect_pair({.mtu = 256});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(write(1, 8));
    net_.run_for(1000);
    inject_ack(1000, 0, 1);
    net_.run_for(5000);
    (void)net_.take_trace();
    a_->post_send(send(2, 1000));
    a_->post_send(write(3, 8));
    net_.run_for(5000);
    EXPECT_THAT(net_.take_trace(), ElementsAre("6us A SEND First psn=1001 len=256 ackreq"));
    inject_ack(1001, 1, 1);
    net_.run_for(5000);
    EXPECT_THAT(net_.take_trace(), ElementsAre("11us B Acknowledge psn=1001 msn=1",         //
                                               "12us A SEND Middle psn=1002 len=256",       //
                                               "12us A SEND Middle psn=1003 len=256",       //
                                               "12us A SEND Last psn=1004 len=232 ackreq",  //
                                               "12us A WRITE Only psn=1005 len=8 ackreq"));
}

TEST_F(RcFlow, WritesNeedNoCredits) {
    connect_pair();
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(write(1, 8));
    net_.run_for(1000);
    inject_ack(1000, 0, 1);
    net_.run_for(5000);
    (void)net_.take_trace();
    for (std::uint64_t i = 2; i <= 6; ++i) {
        a_->post_send(write(i, 8));
    }
    net_.run_for(5000);
    EXPECT_EQ(net_.take_packets().size(), 5U);
}

TEST_F(RcFlow, RoomInTheOutboxIsRespected) {
    connect_pair({.mtu = 256});
    a_->set_room(3);
    b_->set_room(2);
    a_->post_send(write(1, 4096));
    a_->post_send(read(2, 4096, 8192));
    EXPECT_TRUE(a_->qp().progress(0, 64, *a_));
    EXPECT_EQ(net_.take_packets().size(), 3U);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_TRUE(same(8192, 4096));
}

}  // namespace
}  // namespace urnic::sim
