// What RC does about lost, doubled and reordered packets (IBA 9.7.5.1, 9.7.6).
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcRecovery : public RcPair {
  protected:
    wire::PacketHeader request_header(std::uint8_t operation, std::uint32_t psn) {
        wire::PacketHeader header;
        header.opcode = operation;
        header.dest_qp = 2;
        header.psn = Psn(psn);
        return header;
    }
};

TEST_F(RcRecovery, SequenceErrorIsReportedOnce) {
    connect_pair();
    lose("A", {2});
    for (std::uint64_t i = 0; i < 5; ++i) {
        a_->post_send(write(i, 8, 64 * i));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1002 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1003 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1004 len=8 ackreq",  //
                                               "1us B Acknowledge psn=1001 NAK=0",        //
                                               "2us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "2us A WRITE Only psn=1002 len=8 ackreq",  //
                                               "2us A WRITE Only psn=1003 len=8 ackreq",  //
                                               "2us A WRITE Only psn=1004 len=8 ackreq",  //
                                               "3us B Acknowledge psn=1004 msn=5"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), ok(1), ok(2), ok(3), ok(4)));
    EXPECT_EQ(b_->counters.out_of_seq_request.value(), 3U);
    EXPECT_EQ(a_->counters.rcvd_seq_err.value(), 1U);
}

TEST_F(RcRecovery, SequenceNakIsSentAgainForTheNextLoss) {
    connect_pair();
    lose("A", {1, 4});  // the first of three, and its second repetition
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_->post_send(write(i, 8, 64 * i));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), ok(1), ok(2)));
    // The repetition lost its head too: no NAK follows the first, so the timer has to help.
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 1U);
}

TEST_F(RcRecovery, LostRequestIsSentAgainAfterTheAckTimeout) {
    connect_pair({.timeout = 1});  // 8.192 us
    lose("A", {1});
    a_->post_send(write(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "8us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "9us B Acknowledge psn=1000 msn=1"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
}

TEST_F(RcRecovery, LostAckMakesADuplicateThatIsNotExecutedAgain) {
    connect_pair({.timeout = 1});
    lose("B", {1});
    post_receives(2, 64);
    a_->post_send(send(1, 8));
    net_.run_for(5000);
    b_mem_->fill(0);  // the application has taken the message and uses its buffer for something else
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A SEND Only psn=1000 len=8 ackreq",  //
                                               "1us B Acknowledge psn=1000 msn=1",       //
                                               "8us A SEND Only psn=1000 len=8 ackreq",  //
                                               "9us B Acknowledge psn=1000 msn=1"));
    EXPECT_EQ(word(*b_mem_, 0), 0U);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_EQ(b_->counters.duplicate_request.value(), 1U);
}

TEST_F(RcRecovery, LostReadResponseIsAskedForAgainFromWhereItStopped) {
    connect_pair();
    lose("B", {2});
    a_->post_send(read(1, 4096));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A READ Request psn=1000 dma=4096 ackreq",        //
                                               "1us B READ Response First psn=1000 len=1024 msn=1",  //
                                               "1us B READ Response Middle psn=1001 len=1024",       //
                                               "1us B READ Response Middle psn=1002 len=1024",       //
                                               "1us B READ Response Last psn=1003 len=1024 msn=1",   //
                                               "2us A READ Request psn=1001 dma=3072 ackreq",        //
                                               "3us B READ Response First psn=1001 len=1024 msn=1",  //
                                               "3us B READ Response Middle psn=1002 len=1024",       //
                                               "3us B READ Response Last psn=1003 len=1024 msn=1"));
    EXPECT_TRUE(same(0, 4096));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_EQ(a_->counters.implied_nak_seq_err.value(), 1U);
}

TEST_F(RcRecovery, AckBehindALostReadResponseIsAnImpliedNak) {
    connect_pair();
    lose("B", {1});
    a_->post_send(read(1, 8));
    a_->post_send(write(2, 8, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A READ Request psn=1000 dma=8 ackreq",       //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",         //
                                               "1us B READ Response Only psn=1000 len=8 msn=2",  //
                                               "1us B Acknowledge psn=1001 msn=2",               //
                                               "2us A READ Request psn=1000 dma=8 ackreq",       //
                                               "2us A WRITE Only psn=1001 len=8 ackreq",         //
                                               "3us B READ Response Only psn=1000 len=8 msn=2",  //
                                               "3us B Acknowledge psn=1001 msn=2"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
}

TEST_F(RcRecovery, AtomicIsReplayedAndNotDoneAgain) {
    connect_pair({.timeout = 1});
    lose("B", {1});
    word(*b_mem_, 0) = 40;
    a_->post_send(fetch_add(1, 2));
    net_.run_for(5000);
    EXPECT_EQ(word(*b_mem_, 0), 42U);
    word(*b_mem_, 0) = 1000;  // the application goes on counting
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(word(*b_mem_, 0), 1000U);
    EXPECT_EQ(word(*a_mem_, 0), 40U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
}

TEST_F(RcRecovery, SavedAtomicsReachBackMaxDestRdAtomic) {
    connect_pair({.max_rd_atomic = 4, .max_dest_rd_atomic = 4});
    for (std::uint64_t i = 0; i < 6; ++i) {
        word(*b_mem_, 8 * i) = 50 + i;
        a_->post_send(fetch_add(i, 1, 8 * i));
        ASSERT_TRUE(net_.run());
    }
    (void)net_.take_trace();
    for (const std::uint32_t psn : {1001U, 1002U, 1005U}) {
        wire::PacketHeader header = request_header(wire::kFetchAdd, psn);
        header.atomic = {.va = b_mem_->addr(), .rkey = b_mem_->key(), .swap_or_add = 1};
        net_.inject(*a_, header);
        net_.run_for(5000);
    }
    const auto packets = net_.take_packets();
    std::vector<std::uint64_t> replayed;
    for (const SentPacket& packet : packets) {
        if (packet.from == "B") {
            replayed.push_back(packet.header.atomic_ack);
        }
    }
    EXPECT_THAT(replayed, ElementsAre(52U, 55U));  // 1001 is the fifth last
    EXPECT_EQ(word(*b_mem_, 0), 51U);
}

TEST_F(RcRecovery, DuplicateReadIsExecutedAgain) {
    connect_pair();
    a_->post_send(read(1, 3000));
    ASSERT_TRUE(net_.run());
    (void)net_.take_trace();
    wire::PacketHeader header = request_header(wire::kReadRequest, 1001);
    header.reth = {.va = b_mem_->addr(1024), .rkey = b_mem_->key(), .dma_length = 1976};
    net_.inject(*a_, header);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("2us A READ Request psn=1001 dma=1976",               //
                                               "3us B READ Response First psn=1001 len=1024 msn=1",  //
                                               "3us B READ Response Last psn=1002 len=952 msn=1"));
}

TEST_F(RcRecovery, DuplicateReadMayNotReachBeyondWhatWasAskedFor) {
    connect_pair();
    a_->post_send(read(1, 8));
    ASSERT_TRUE(net_.run());
    (void)net_.take_trace();
    wire::PacketHeader header = request_header(wire::kReadRequest, 1000);
    header.reth = {.va = b_mem_->addr(), .rkey = b_mem_->key(), .dma_length = 4096};
    net_.inject(*a_, header);
    header.reth = {.va = b_mem_->addr(kRegionBytes), .rkey = b_mem_->key(), .dma_length = 8};
    net_.inject(*a_, header);
    ASSERT_TRUE(net_.run());
    const auto packets = net_.take_packets();
    EXPECT_EQ(packets.size(), 2U);  // the two injected: nothing came back
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

TEST_F(RcRecovery, ReadThatIsAskedForAgainWhileItIsAnsweredStartsOver) {
    connect_pair({.mtu = 256});
    deliver_to_b(to_b_memory(wire::kReadRequest, 1000, 1280));
    deliver_to_b(to_b_memory(wire::kReadRequest, 1005, 8, 4096));
    EXPECT_TRUE(b_->qp().progress(net_.now(), 3, *b_));
    deliver_to_b(to_b_memory(wire::kReadRequest, 1001, 1024, 256));  // the first, from its second packet
    deliver_to_b(to_b_memory(wire::kReadRequest, 1005, 8, 4096));    // not begun yet: nothing changes
    EXPECT_FALSE(b_->qp().progress(net_.now(), 64, *b_));
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us B READ Response First psn=1000 len=256 msn=2",  //
                                               "0us B READ Response Middle psn=1001 len=256",       //
                                               "0us B READ Response Middle psn=1002 len=256",       //
                                               "0us B READ Response First psn=1001 len=256 msn=2",  //
                                               "0us B READ Response Middle psn=1002 len=256",       //
                                               "0us B READ Response Middle psn=1003 len=256",       //
                                               "0us B READ Response Last psn=1004 len=256 msn=2",   //
                                               "0us B READ Response Only psn=1005 len=8 msn=2"));
}

TEST_F(RcRecovery, FloodOfDuplicateReadsIsBounded) {
    connect_pair({.mtu = 256});
    deliver_to_b(to_b_memory(wire::kReadRequest, 1000, 25600));
    EXPECT_FALSE(b_->qp().progress(net_.now(), 200, *b_));
    EXPECT_EQ(net_.take_packets().size(), 100U);
    for (std::uint32_t i = 0; i < 1000; ++i) {
        deliver_to_b(to_b_memory(wire::kReadRequest, 1000 + i % 100, 8));
    }
    for (std::uint32_t i = 0; i < 16; ++i) {
        deliver_to_b(to_b_memory(wire::kReadRequest, 1100 + i, 8));  // the new ones still find their place
    }
    EXPECT_FALSE(b_->qp().progress(net_.now(), 64, *b_));
    const auto packets = net_.take_packets();
    EXPECT_EQ(packets.size(), 32U);
    EXPECT_EQ(packets.back().header.psn, Psn(1115));
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

TEST_F(RcRecovery, EachLossIsReported) {
    connect_pair();
    lose("A", {1, 7});
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_->post_send(write(i, 8));
    }
    ASSERT_TRUE(net_.run());
    for (std::uint64_t i = 3; i < 6; ++i) {
        a_->post_send(write(i, 8));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 6U);
    EXPECT_EQ(a_->counters.rcvd_seq_err.value(), 2U);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
}

TEST_F(RcRecovery, ReorderedInsideABurst) {
    connect_pair();
    const std::byte data[8] = {};
    for (const std::uint32_t psn : {1002U, 1000U}) {
        deliver_to_b(to_b_memory(wire::kWriteOnly, psn, 8), data);
    }
    (void)b_->qp().progress(net_.now(), 64, *b_);
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us B Acknowledge psn=1001 NAK=0"));
    for (const std::uint32_t psn : {1002U, 1001U, 1002U, 1003U}) {
        wire::PacketHeader header = to_b_memory(wire::kWriteOnly, psn, 8);
        header.ack_req = true;
        deliver_to_b(header, data);
    }
    (void)b_->qp().progress(net_.now(), 64, *b_);
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us B Acknowledge psn=1003 msn=4"));
    for (const std::uint32_t psn : {1005U, 1004U, 1005U}) {
        wire::PacketHeader header = to_b_memory(wire::kWriteOnly, psn, 8);
        header.ack_req = true;
        deliver_to_b(header, data);
    }
    (void)b_->qp().progress(net_.now(), 64, *b_);
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us B Acknowledge psn=1005 msn=6"));
}

TEST_F(RcRecovery, TheAckTimerBeginsWithThePacket) {
    connect_pair({.timeout = 1});
    net_.run_until(1'000'000);
    lose("A", {1});
    a_->post_send(write(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("1000us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "1008us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "1009us B Acknowledge psn=1000 msn=1"));
}

TEST_F(RcRecovery, ImpliedNakCountsAgainAfterATimeout) {
    connect_pair({.timeout = 1});
    net_.lose = [count_a = 0, count_b = 0](const SentPacket& packet) mutable {
        // The first response, the request for it, and the first response to the next request.
        return packet.from == "A" ? ++count_a == 2 : (++count_b == 1 || count_b == 3);
    };
    a_->post_send(read(1, 2048));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_EQ(a_->counters.implied_nak_seq_err.value(), 2U);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 1U);
}

TEST_F(RcRecovery, OnlyWhatAsksIsAcknowledged) {
    connect_pair();
    const std::byte data[8] = {};
    deliver_to_b(to_b_memory(wire::kWriteOnly, 1000, 8), data);
    (void)b_->qp().progress(net_.now(), 64, *b_);
    EXPECT_THAT(net_.take_trace(), IsEmpty());
}

TEST_F(RcRecovery, RetriesAreCounted) {
    connect_pair({.timeout = 1, .retry_cnt = 3});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(write(1, 8));
    a_->post_send(write(2, 8));
    post_receives(1, 8);
    ASSERT_TRUE(net_.run());
    const auto packets = net_.take_packets();
    EXPECT_EQ(packets.size(), 2U * 4);  // once and three retries
    EXPECT_EQ(net_.now() / 1000, 4 * 8192U / 1000);
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRetryExcErr}, flushed(2)));
    EXPECT_EQ(a_->qp().state(), QpState::kErr);
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
    EXPECT_EQ(a_->counters.req_transport_retries_exceeded.value(), 1U);
}

TEST_F(RcRecovery, NoRetryAtAll) {
    connect_pair({.timeout = 1, .retry_cnt = 0});
    net_.lose = [](const SentPacket&) { return true; };
    a_->post_send(write(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(net_.take_packets().size(), 1U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRetryExcErr}));
}

TEST_F(RcRecovery, SequenceNaksCountAsRetries) {
    connect_pair({.timeout = 0, .retry_cnt = 2});
    // The second of three never arrives; the timer is off.
    net_.lose = [](const SentPacket& packet) {
        return packet.from == "A" && packet.header.psn.value() == 1001;
    };
    for (std::uint64_t i = 1; i <= 3; ++i) {
        a_->post_send(write(i, 8));
    }
    net_.run_for(100'000);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    for (int nak = 0; nak < 2; ++nak) {
        wire::PacketHeader header = request_header(wire::kAcknowledge, 1001);
        header.dest_qp = 1;
        header.aeth.syndrome = wire::kNakPsnSequenceError;
        net_.inject(*b_, header);
        net_.run_for(10'000);
    }
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{2, WcStatus::kRetryExcErr}, flushed(3)));
}

TEST_F(RcRecovery, ProgressGivesTheRetriesBack) {
    connect_pair({.timeout = 1, .retry_cnt = 1});
    // Every packet is lost once: one retry for each message is enough.
    net_.lose = [last = -1](const SentPacket& packet) mutable {
        const auto psn = static_cast<int>(packet.header.psn.value());
        return packet.from == "A" && std::exchange(last, psn) != psn;
    };
    for (std::uint64_t i = 0; i < 5; ++i) {
        a_->post_send(write(i, 8));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(i)));
    }
}

TEST_F(RcRecovery, TimeoutZeroWaitsForEver) {
    connect_pair({.timeout = 0});
    net_.lose = [](const SentPacket&) { return true; };
    a_->post_send(write(1, 8));
    net_.run_for(1'000'000'000'000);
    EXPECT_EQ(net_.take_packets().size(), 1U);
    EXPECT_THAT(a_->poll_send(), IsEmpty());
    EXPECT_EQ(a_->qp().deadline(), kNever);
}

TEST_F(RcRecovery, SlowPeerIsNotAskedTwice) {
    // B sends one response packet each 7 us, the timeout is 8 us: the stream keeps the timer from firing.
    connect_pair({.mtu = 256, .timeout = 1});
    a_->post_send(read(1, 2560));
    net_.run_until(999);
    (void)net_.take_trace();
    wire::PacketHeader header;
    header.dest_qp = 1;
    net_.lose = [](const SentPacket& packet) { return packet.from == "B" && packet.payload_bytes == 256; };
    net_.run_until(1000);
    net_.lose = nullptr;
    (void)net_.take_packets();
    for (std::uint32_t i = 0; i < 10; ++i) {
        header.opcode = i == 0   ? wire::kReadResponseFirst
                        : i == 9 ? wire::kReadResponseLast
                                 : wire::kReadResponseMiddle;
        header.psn = Psn(1000 + i);
        header.aeth.syndrome = wire::kCreditsUnlimited;
        net_.inject(*b_, header, {b_mem_->data() + 256 * i, 256});
        net_.run_for(7000);
    }
    EXPECT_EQ(net_.take_packets().size(), 10U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_TRUE(same(0, 2560));
}

TEST_F(RcRecovery, PsnWrapUnderLoss) {
    connect_pair({.mtu = 256, .psn_a = 0xfffff0, .timeout = 6});
    net_.lose = [count = 0](const SentPacket&) mutable { return ++count % 7 == 0; };
    a_->post_send(write(1, 20'000));
    a_->post_send(read(2, 20'000, 32'768));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_TRUE(same(0, 20'000));
    EXPECT_TRUE(same(32'768, 20'000));
}

TEST_F(RcRecovery, GhostAndOldAcknowledgementsChangeNothing) {
    connect_pair({.timeout = 0});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(write(1, 8));
    net_.run_for(5000);
    wire::PacketHeader header = request_header(wire::kAcknowledge, 1001);
    header.dest_qp = 1;
    header.aeth.syndrome = wire::kCreditsUnlimited;
    for (const std::uint32_t psn : {1001U, 1500U, 999U, 0U, 1000U + (1U << 23U)}) {
        header.psn = Psn(psn);
        net_.inject(*b_, header);
    }
    header.aeth.syndrome = wire::kNakInvalidRequest;
    header.psn = Psn(999);
    net_.inject(*b_, header);
    net_.run_for(5000);
    EXPECT_THAT(a_->poll_send(), IsEmpty());
    EXPECT_EQ(a_->qp().state(), QpState::kRts);
}

TEST_F(RcRecovery, CorruptFramesAreCaughtByTheIcrc) {
    connect_pair({.timeout = 6});
    net_.faults.corrupt = 300;
    for (std::uint64_t i = 0; i < 40; ++i) {
        a_->post_send(write(i, 2000, 2048 * i));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 40U);
    EXPECT_GT(net_.frames_corrupted, 10U);
    for (std::size_t i = 0; i < 40; ++i) {
        EXPECT_TRUE(same(2048 * i, 2000)) << i;
    }
}

}  // namespace
}  // namespace urnic::sim
