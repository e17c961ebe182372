// Loss recovery between ends that hold what comes early, and towards peers that do not (docs/adr/0007).
#include "rnic/qp/rc/rc_loss_recovery.h"

#include <set>

#include "rnic/qp/rc/send_window.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcLossRecoveryTest : public RcPair {
  protected:
    void connect_holders(bool a_holds, bool b_holds, const ConnectOptions& options = {}) {
        SimHost::Options a;
        a.holds_early_packets = a_holds;
        SimHost::Options b;
        b.holds_early_packets = b_holds;
        connect_pair(options, a, b);
    }
    void post_writes(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            a_->post_send(write(i, 8, 64 * i));
        }
    }
};

TEST_F(RcLossRecoveryTest, OnlyTheMissingRequestGoesAgain) {
    connect_holders(true, true);
    lose("A", {2});
    post_writes(5);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1002 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1003 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1004 len=8 ackreq",  //
                                               "1us B Acknowledge psn=1001 NAK=0",        //
                                               "2us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "3us B Acknowledge psn=1004 msn=5"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), ok(1), ok(2), ok(3), ok(4)));
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 1U);
    EXPECT_EQ(b_->held_frames.most, 3U);
    EXPECT_EQ(b_->held_frames.size(), 0U);
}

TEST_F(RcLossRecoveryTest, TheNextGapIsReportedWhenTheFirstIsFilled) {
    connect_holders(true, true);
    lose("A", {2, 4});
    post_writes(5);
    ASSERT_TRUE(net_.run());
    (void)net_.take_trace();
    EXPECT_EQ(a_->poll_send().size(), 5U);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 2U);
    EXPECT_EQ(a_->counters.rcvd_seq_err.value(), 2U);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
}

TEST_F(RcLossRecoveryTest, NothingLaterIsVisibleBeforeTheMissingRequest) {
    connect_holders(true, true, {.timeout = 0});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A" && packet.header.psn == Psn(1000); };
    post_receives(1, 64, 4096);
    a_->post_send(write(1, 8));
    a_->post_send(write(2, 8, 64));
    a_->post_send(send(3, 8, 128));
    a_->post_send(fetch_add(4, 1, 256));
    const std::uint64_t before = word(*b_mem_, 64);
    const std::uint64_t counter = word(*b_mem_, 256);
    net_.run_for(1500);
    EXPECT_EQ(b_->held_frames.size(), 3U);
    EXPECT_EQ(word(*b_mem_, 64), before);
    EXPECT_EQ(word(*b_mem_, 256), counter);
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    net_.lose = nullptr;
    ASSERT_TRUE(net_.run());
    EXPECT_TRUE(same(64, 8));
    EXPECT_EQ(word(*b_mem_, 256), counter + 1);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3), ok(4)));
}

TEST_F(RcLossRecoveryTest, APeerThatDiscardsIsNoticedOnce) {
    connect_holders(true, false);
    lose("A", {2});
    post_writes(5);
    ASSERT_TRUE(net_.run());
    // One round trip is lost to find out: the ACK ends where the missing request ends.
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1002 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1003 len=8 ackreq",  //
                                               "0us A WRITE Only psn=1004 len=8 ackreq",  //
                                               "1us B Acknowledge psn=1001 NAK=0",        //
                                               "2us A WRITE Only psn=1001 len=8 ackreq",  //
                                               "3us B Acknowledge psn=1001 msn=2",        //
                                               "4us A WRITE Only psn=1002 len=8 ackreq",  //
                                               "4us A WRITE Only psn=1003 len=8 ackreq",  //
                                               "4us A WRITE Only psn=1004 len=8 ackreq",  //
                                               "5us B Acknowledge psn=1004 msn=5"));
    EXPECT_EQ(a_->poll_send().size(), 5U);
    // From then on it goes back N at once.
    lose("A", {1});
    post_writes(3);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 3U);
    EXPECT_EQ(net_.take_packets().size(), 3U + 1 + 3 + 1);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
}

TEST_F(RcLossRecoveryTest, GapsBehindAMissingResponseDoNotUseUpTheRetries) {
    connect_holders(true, true, {.retry_cnt = 2});
    int answers = 0;
    std::set<std::uint32_t> lost;
    net_.lose = [&](const SentPacket& packet) {
        if (packet.from == "B") {
            return packet.header.opcode == wire::kReadResponseOnly && ++answers <= 3;
        }
        const std::uint32_t psn = packet.header.psn.value();
        return psn > 1000 && psn % 2 == 0 && lost.insert(psn).second;
    };
    a_->post_send(read(99, 8));
    post_writes(12);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(lost.size(), 6U);
    EXPECT_EQ(a_->poll_send().size(), 13U);
    EXPECT_EQ(a_->qp().state(), QpState::kRts);
}

// Without a QP around it: the first request has PSN 100.
class RcLossRecoveryAlone : public ::testing::Test {
  protected:
    RcLossRecoveryAlone() {
        window.reset(Psn(100));
        recovery.reset(true);
    }
    void send(int count, const InflightWqe& wqe) {
        for (int i = 0; i < count; ++i) {
            (void)window.add(wqe);
            window.advance_cursor();
        }
    }

    SendWindow window;
    RttEstimator rtt;
    RcLossRecovery recovery{window, rtt};
};

TEST_F(RcLossRecoveryAlone, AnAcknowledgementBeyondWhatWasSentAgainShowsThatThePeerHolds) {
    send(10, {.psn_count = 1});
    // It held nothing behind the first loss.
    EXPECT_TRUE(recovery.on_sequence_nak(0, Psn(100)));
    EXPECT_TRUE(recovery.must_resend_request());
    recovery.on_request_resent(0);
    EXPECT_FALSE(recovery.on_ack(1, Psn(101), window.cursor_psn(), true));
    (void)window.acknowledge(Psn(100));
    window.rewind();
    recovery.cancel_after_loss(1);
    // From then on everything goes again, of which two packets have gone when it acknowledges five.
    window.advance_cursor();
    window.advance_cursor();
    EXPECT_FALSE(recovery.on_sequence_nak(2, Psn(101)));
    window.rewind();
    recovery.cancel_after_loss(2);
    window.advance_cursor();
    window.advance_cursor();
    EXPECT_TRUE(recovery.on_ack(3, Psn(106), window.cursor_psn(), true));
    for (std::uint32_t psn = 101; psn < 106; ++psn) {
        (void)window.acknowledge(Psn(psn));
    }
    window.advance_cursor();
    EXPECT_TRUE(recovery.on_sequence_nak(4, Psn(106)));
}

// Whether it is known to hold or not, on a wire that was seen to lose something.
TEST_F(RcLossRecoveryTest, ALostNakOfAnUnknownPeerIsMadeUpForAsWell) {
    connect_holders(true, true);
    lose("B", {1});
    a_->post_send(read(9, 8));
    a_->post_send(read(10, 8, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 2U);
    (void)net_.take_trace();
    const std::uint64_t before = a_->counters.retrans_pkts.value();
    net_.lose = [a = 0, b = 0](const SentPacket& packet) mutable {
        return packet.from == "A" ? ++a == 1 : ++b == 1;
    };
    post_writes(2);
    net_.run_for(2500);
    post_writes(1);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 3U);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), before + 1);
}

TEST_F(RcLossRecoveryAlone, APeerThatRepeatsItselfLongAfterTheLastLossHoldsAfterAll) {
    constexpr TimeNs kLongest = 1'000'000'000;
    constexpr TimeNs kLate = 10'000'000;
    send(10, {.psn_count = 1});
    // Two losses in a row: it looks as if it discarded.
    EXPECT_TRUE(recovery.on_sequence_nak(0, Psn(100)));
    recovery.on_request_resent(0);
    (void)window.acknowledge(Psn(100));
    EXPECT_FALSE(recovery.on_sequence_nak(1, Psn(101)));
    window.rewind();
    recovery.cancel_after_loss(1);
    // While things go again, and for a while after that, duplicates draw such acknowledgements.
    window.advance_cursor();
    recovery.on_duplicate_ack(kLate, Psn(101), kLongest);
    EXPECT_FALSE(recovery.must_resend_request());
    while (window.cursor_psn() != window.sent_end()) {
        window.advance_cursor();
    }
    recovery.on_duplicate_ack(2, Psn(101), kLongest);
    EXPECT_FALSE(recovery.must_resend_request());
    recovery.on_duplicate_ack(kLate, Psn(101), kLongest);
    EXPECT_TRUE(recovery.must_resend_request());
    EXPECT_EQ(recovery.resend_psn(), Psn(101));
    recovery.on_request_resent(kLate);
    EXPECT_TRUE(
        recovery.on_sequence_nak(kLate + 1, Psn(104)));  // another gap, and what is between them was held
}

// A worker that came late handles the ACK timeout alone; the next call must lie ahead.
TEST_F(RcLossRecoveryAlone, AfterEverythingGoesAgainItsPatienceBeginsAnew) {
    constexpr TimeNs kLongest = 1'000'000'000;
    constexpr TimeNs kLate = 10'000'000;
    send(1, {.psn_count = 3, .has_response = true});
    EXPECT_TRUE(recovery.responses().on_gap(0, Psn(102)));
    EXPECT_LT(recovery.deadline(0, kLongest), kLate);
    window.rewind();
    recovery.cancel(kLate);
    EXPECT_GT(recovery.deadline(0, kLongest), kLate);
}

TEST_F(RcLossRecoveryTest, ALostNakIsMadeUpForByAcknowledgementsThatStandStill) {
    connect_holders(true, true);
    lose("A", {2});
    post_writes(4);
    ASSERT_TRUE(net_.run());
    (void)a_->poll_send();
    (void)net_.take_trace();
    // B is known to hold. Now the first of A and the NAK for it are lost.
    net_.lose = [a = 0, b = 0](const SentPacket& packet) mutable {
        return packet.from == "A" ? ++a == 1 : ++b == 1;
    };
    post_writes(2);
    net_.run_for(2500);
    post_writes(1);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 3U);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 2U);
}

TEST_F(RcLossRecoveryTest, WhatWasSentAgainAndLostGoesOnceMoreLongBeforeTheTimeout) {
    connect_holders(true, true, {.timeout = 20});  // 4.3 s
    lose("A", {2, 6, 7});
    post_writes(5);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 5U);
    EXPECT_LT(net_.now(), 1'000'000U);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
}

// A message asks for an acknowledgement once in 32 packets; at 100 Mbit/s that is every three milliseconds.
TEST_F(RcLossRecoveryTest, SilenceIsNoLossWhereNoAnswerWasAskedFor) {
    congestion::Settings slow;
    slow.rate.algorithm = congestion::Algorithm::kFixed;
    slow.rate.line_rate = 100'000'000'000;
    slow.rate.fixed_rate = 100'000'000;
    slow.burst_bytes = 1;
    const SimHost::Options host{.holds_early_packets = true, .congestion = &slow};
    connect_pair({.timeout = 20}, host);
    lose("A", {2});
    a_->post_send(write(1, 100 * 1024));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 1U);
    EXPECT_EQ(b_->counters.duplicate_request.value(), 0U);
}

// What got lost at the end draws no NAK. Where something was lost before, that does not cost the ACK timeout,
// whatever the peer does with early packets.
TEST_F(RcLossRecoveryTest, ALostTailIsMadeUpForLongBeforeTheTimeout) {
    for (const bool b_holds : {true, false}) {
        for (const std::vector<int>& tail : {std::vector{3}, {2, 3}, {1, 2, 3}}) {
            net_ = SimNetwork();
            connect_holders(true, b_holds, {.timeout = 20});  // 4.3 s
            lose("A", {2});
            post_writes(3);
            ASSERT_TRUE(net_.run());
            EXPECT_EQ(a_->poll_send().size(), 3U);
            const TimeNs before = net_.now();
            lose("A", tail);
            post_writes(3);
            ASSERT_TRUE(net_.run());
            EXPECT_EQ(a_->poll_send().size(), 3U);
            EXPECT_LT(net_.now() - before, 1'000'000U);
            EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
            EXPECT_EQ(b_->held_frames.size(), 0U);
        }
    }
}

// On a wire that has lost nothing yet the ACK timeout alone decides: the peer may be busy.
TEST_F(RcLossRecoveryTest, SilenceIsNoLossOnAWireThatLostNothing) {
    constexpr std::uint8_t kCode = 10;
    connect_holders(true, true, {.timeout = kCode});
    post_writes(3);
    ASSERT_TRUE(net_.run());
    lose("A", {1});
    post_writes(1);
    const TimeNs before = net_.now();
    ASSERT_TRUE(net_.run());
    EXPECT_GE(net_.now() - before, TimeNs{4096} << kCode);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 1U);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 1U);
}

// It sends the whole row again when it hears of the first packet.
TEST_F(RcLossRecoveryTest, ARequesterThatGoesBackHearsOnceOfARowThatIsMissing) {
    connect_holders(false, true);
    const std::byte data[8] = {};
    for (const std::uint32_t psn : {1003, 1005, 1000, 1001, 1002}) {
        deliver_to_b(to_b_memory(wire::kWriteOnly, psn, 8), data);
        net_.run_for(10);
    }
    // Behind what was held another gap follows, which it hears of at once.
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us B Acknowledge psn=1000 NAK=0",  //
                                               "0us B Acknowledge psn=1004 NAK=0"));
}

TEST_F(RcLossRecoveryTest, GivesUpWhenTheRetriesAreUsedUp) {
    connect_holders(true, true, {.timeout = 1, .retry_cnt = 2});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A" && packet.header.psn == Psn(1001); };
    post_writes(3);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), Done{1, WcStatus::kRetryExcErr}, flushed(2)));
    EXPECT_EQ(a_->held_frames.size(), 0U);
    ASSERT_EQ(b_->to_state(QpState::kErr), 0);
    EXPECT_EQ(b_->held_frames.size(), 0U);
}

TEST_F(RcLossRecoveryTest, OnlyTheMissingResponsesAreAskedForAgain) {
    connect_holders(true, true);
    lose("B", {2, 3, 5});
    a_->post_send(read(1, 6 * 1024));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A READ Request psn=1000 dma=6144 ackreq",        //
                                               "1us B READ Response First psn=1000 len=1024 msn=1",  //
                                               "1us B READ Response Middle psn=1001 len=1024",       //
                                               "1us B READ Response Middle psn=1002 len=1024",       //
                                               "1us B READ Response Middle psn=1003 len=1024",       //
                                               "1us B READ Response Middle psn=1004 len=1024",       //
                                               "1us B READ Response Last psn=1005 len=1024 msn=1",   //
                                               "2us A READ Request psn=1001 dma=2048 ackreq",        //
                                               "3us B READ Response First psn=1001 len=1024 msn=1",  //
                                               "3us B READ Response Last psn=1002 len=1024 msn=1",   //
                                               "4us A READ Request psn=1004 dma=1024 ackreq",        //
                                               "5us B READ Response Only psn=1004 len=1024 msn=1"));
    EXPECT_TRUE(same(0, 6 * 1024));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_EQ(a_->held_frames.size(), 0U);
}

// A responder may know no more of a READ than what was asked for last.
TEST_F(RcLossRecoveryTest, NoEarlierPartOfAReadIsAskedForAfterALaterOne) {
    connect_holders(true, true);
    lose("B", {2, 5, 8});  // two gaps in the first READ, and then the answer to the first request again
    a_->post_send(read(1, 6 * 1024));
    a_->post_send(read(2, 8, 64));
    ASSERT_TRUE(net_.run());
    std::vector<std::string> requests;
    for (const std::string& line : net_.take_trace()) {
        if (line.find(" A ") != std::string::npos) {
            requests.push_back(line.substr(line.find(" A ")));
        }
    }
    EXPECT_THAT(requests, ElementsAre(" A READ Request psn=1000 dma=6144 ackreq",  //
                                      " A READ Request psn=1006 dma=8 ackreq",     //
                                      " A READ Request psn=1001 dma=1024 ackreq",  //
                                      " A READ Request psn=1001 dma=1024 ackreq",  //
                                      " A READ Request psn=1004 dma=1024 ackreq"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
}

TEST_F(RcLossRecoveryTest, ALostAtomicResponseIsReplayedAndTheRestKept) {
    connect_holders(true, true);
    lose("B", {1});
    word(*b_mem_, 0) = 40;
    a_->post_send(fetch_add(1, 2));
    a_->post_send(write(2, 8, 64));
    a_->post_send(read(3, 8, 128));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A FetchAdd psn=1000 ackreq",                 //
                                               "0us A WRITE Only psn=1001 len=8 ackreq",         //
                                               "0us A READ Request psn=1002 dma=8 ackreq",       //
                                               "1us B ATOMIC Acknowledge psn=1000 msn=3",        //
                                               "1us B READ Response Only psn=1002 len=8 msn=3",  //
                                               "2us A FetchAdd psn=1000 ackreq",                 //
                                               "3us B ATOMIC Acknowledge psn=1000 msn=3"));
    EXPECT_EQ(word(*b_mem_, 0), 42U);
    EXPECT_EQ(word(*a_mem_, 0), 40U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3)));
}

TEST_F(RcLossRecoveryTest, EarlyRequestsAreCheckedWhenTheirTurnComes) {
    connect_holders(true, true);
    lose("A", {1});
    a_->post_send(write(1, 8));
    SendRequest bad = write(2, 8, 64);
    bad.rkey = 0x1234;
    a_->post_send(bad);
    a_->post_send(write(3, 8, 128));
    const std::uint64_t before = word(*b_mem_, 128);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), Done{2, WcStatus::kRemAccessErr}, flushed(3)));
    EXPECT_EQ(word(*b_mem_, 128), before);
    EXPECT_EQ(b_->held_frames.size(), 0U);
}

TEST_F(RcLossRecoveryTest, EarlySendsWaitForReceives) {
    connect_holders(true, true, {.min_rnr_timer = 1});
    post_receives(1, 64);
    lose("A", {1});
    for (std::uint64_t i = 1; i <= 3; ++i) {
        a_->post_send(send(i, 8, 64 * i));
    }
    net_.run_for(5000);
    post_receives(2, 64);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3)));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100), ok(101), ok(102)));
}

TEST_F(RcLossRecoveryTest, WhatIsHeldIsBounded) {
    connect_holders(true, true);
    const std::byte data[8] = {};
    for (std::uint32_t psn = 1001; psn < 1001 + 4 * kReorderBufferPackets; ++psn) {
        deliver_to_b(to_b_memory(wire::kWriteOnly, psn, 8), data);
    }
    EXPECT_EQ(b_->held_frames.size(), kReorderBufferPackets - 1);
    deliver_to_b(to_b_memory(wire::kWriteOnly, 1000, 8), data);
    EXPECT_EQ(b_->held_frames.size(), 0U);
    EXPECT_EQ(b_->reorder_buffers.free_tables(), 2U);
}

TEST_F(RcLossRecoveryTest, WhatAReadPassesOverIsDropped) {
    connect_holders(true, true);
    const std::byte data[8] = {};
    // A peer that uses PSNs of a READ's responses for requests of its own.
    deliver_to_b(to_b_memory(wire::kWriteOnly, 1002, 8), data);
    deliver_to_b(to_b_memory(wire::kWriteOnly, 1004, 8), data);
    EXPECT_EQ(b_->held_frames.size(), 2U);
    deliver_to_b(to_b_memory(wire::kReadRequest, 1000, 4096));
    EXPECT_EQ(b_->held_frames.size(), 0U);
}

TEST_F(RcLossRecoveryTest, ResetLetsGoOfWhatIsHeld) {
    connect_holders(true, true);
    const std::byte data[8] = {};
    deliver_to_b(to_b_memory(wire::kWriteOnly, 1002, 8), data);
    EXPECT_EQ(b_->held_frames.size(), 1U);
    ASSERT_EQ(b_->to_state(QpState::kReset), 0);
    EXPECT_EQ(b_->held_frames.size(), 0U);
    EXPECT_EQ(b_->reorder_buffers.free_tables(), 2U);
}

}  // namespace
}  // namespace urnic::sim
