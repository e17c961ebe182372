// Rows of packets that are missing: what a switch drops when its buffer is full (docs/adr/0007).
#include "rnic/qp/rc/rc_loss_recovery.h"
#include "rnic/qp/rc/send_window.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

class RcBurstLossTest : public RcPair {
  protected:
    /// Both ends hold what comes early, and A knows it of B; one packet went again for that.
    void connect_to_a_holder(const ConnectOptions& options) {
        SimHost::Options host;
        host.holds_early_packets = true;
        connect_pair(options, host, host);
        lose("A", {1});
        post_writes(2);
        ASSERT_TRUE(net_.run());
        EXPECT_EQ(a_->poll_send().size(), 2U);
        EXPECT_EQ(a_->counters.retrans_pkts.value(), 1U);
    }
    void post_writes(std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            a_->post_send(write(i, 8, 64 * i));
        }
    }
};

// The first packet that is missing goes again alone; when the next is missing too, two, then four and so on.
TEST_F(RcBurstLossTest, OfARowThatIsMissingTwiceAsMuchGoesAgainEachTime) {
    connect_to_a_holder({});
    const TimeNs before = net_.now();
    lose("A", {2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    post_writes(30);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 30U);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 1U + 1 + 2 + 4 + 8);
    EXPECT_EQ(a_->counters.rcvd_seq_err.value(), 1U + 4);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
    EXPECT_LE(net_.now() - before, 5 * 2000U);
    // B is still known to hold, and the next gap begins with one packet.
    lose("A", {1, 5});
    post_writes(10);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 16U + 2);
}

TEST_F(RcBurstLossTest, WhatIsLostOfARunGoesOnceMoreLongBeforeTheTimeout) {
    for (const std::vector<int>& again : {std::vector{22}, {23}, {24}, {22, 23, 24}, {21, 22, 23, 24}}) {
        net_ = SimNetwork();
        connect_to_a_holder({.timeout = 20});  // 4.3 s
        // Of 18 packets seven are missing, which go again as the 19th, the 20th and 21st, the 22nd to 25th.
        std::vector<int> lost = again;
        for (int i = 2; i < 9; ++i) {
            lost.push_back(i);
        }
        const TimeNs before = net_.now();
        lose("A", lost);
        post_writes(18);
        ASSERT_TRUE(net_.run());
        EXPECT_EQ(a_->poll_send().size(), 18U);
        EXPECT_LT(net_.now() - before, 10'000'000U);
        EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
        EXPECT_LE(a_->counters.retrans_pkts.value(), 1U + 7 + 2 * again.size());
    }
}

TEST_F(RcBurstLossTest, AReadInARowThatIsMissingGoesAgainAlone) {
    connect_to_a_holder({});
    lose("A", {1, 2, 3, 4, 5, 6});
    post_writes(3);
    a_->post_send(read(3, 4 * 1024, 1024));
    for (std::uint64_t i = 4; i < 10; ++i) {
        a_->post_send(write(i, 8, 64 * i));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 10U);
    EXPECT_TRUE(same(1024, 4 * 1024));
    // A WRITE, two, the READ, and then eight, or as many as there are.
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 1U + 1 + 2 + 1 + 6);
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 0U);
}

// What seems to hold and never has more than what went again: it comes to the same as going back N, after a
// window in runs that double.
TEST(RcBurstLoss, APeerThatWasTakenForOneThatHoldsIsNoticed) {
    SendWindow window;
    window.reset(Psn(100));
    RttEstimator rtt;
    RcLossRecovery recovery(window, rtt);
    recovery.reset(true);
    (void)window.add({.psn_count = 500});
    for (int i = 0; i < 400; ++i) {
        window.advance_cursor();
    }
    EXPECT_TRUE(recovery.on_sequence_nak(0, Psn(100)));
    recovery.on_request_resent(0);
    EXPECT_TRUE(recovery.on_ack(1, Psn(102), window.cursor_psn(), true));
    (void)window.acknowledge(Psn(101));
    Psn missing(102);
    for (std::uint32_t run = 1; run <= 128; run *= 2) {
        ASSERT_TRUE(recovery.on_sequence_nak(2, missing));
        for (std::uint32_t i = 0; i < run; ++i, ++missing) {
            ASSERT_TRUE(recovery.must_resend_request());
            EXPECT_EQ(recovery.resend_psn(), missing);
            recovery.on_request_resent(2);
        }
        EXPECT_FALSE(recovery.must_resend_request());
        EXPECT_TRUE(recovery.on_ack(3, missing, window.cursor_psn(), false));
        (void)window.acknowledge(missing - 1);
    }
    EXPECT_FALSE(recovery.on_sequence_nak(4, missing));
}

// The second packet overtakes the first: a peer that discards says that it misses the first, and a moment
// later that it misses what came while it did.
TEST(RcBurstLoss, WhatComesSoonerThanAnyAnswerDoesNotShowThatThePeerHolds) {
    constexpr TimeNs kAnswer = 1000;
    for (const bool soon : {true, false}) {
        SendWindow window;
        window.reset(Psn(100));
        RttEstimator rtt;
        RcLossRecovery recovery(window, rtt);
        recovery.reset(true);
        rtt.add_sample(5 * kAnswer, true);
        rtt.add_sample(kAnswer, true);
        rtt.add_sample(7 * kAnswer, true);
        (void)window.add({.psn_count = 20});
        for (int i = 0; i < 20; ++i) {
            window.advance_cursor();
        }
        ASSERT_TRUE(recovery.on_sequence_nak(0, Psn(100)));
        recovery.on_request_resent(0);
        const TimeNs now = soon ? kAnswer / 3 : kAnswer;
        EXPECT_TRUE(recovery.on_ack(now, Psn(102), window.cursor_psn(), false));
        (void)window.acknowledge(Psn(101));
        ASSERT_TRUE(recovery.on_sequence_nak(now, Psn(102)));
        recovery.on_request_resent(now);
        EXPECT_TRUE(recovery.on_ack(3 * kAnswer, Psn(103), window.cursor_psn(), false));
        (void)window.acknowledge(Psn(102));
        EXPECT_EQ(recovery.on_sequence_nak(3 * kAnswer, Psn(103)), !soon);
        // The same of what goes again from there on.
        if (soon) {
            window.rewind();
            recovery.cancel_after_loss(4 * kAnswer);
            window.advance_cursor();
            EXPECT_TRUE(recovery.on_ack(4 * kAnswer + kAnswer / 3, Psn(106), window.cursor_psn(), false));
            (void)window.acknowledge(Psn(105));
            window.advance_cursor();
            EXPECT_FALSE(recovery.on_sequence_nak(5 * kAnswer, Psn(106)));
        }
    }
}

// A peer that holds repeats its acknowledgement when more comes early; one that discards is silent.
TEST(RcBurstLoss, APeerThatRepeatsItselfAtOnceHolds) {
    constexpr TimeNs kAnswer = 1000;
    for (const int reminders : {0, 1, 2}) {
        SendWindow window;
        window.reset(Psn(100));
        RttEstimator rtt;
        RcLossRecovery recovery(window, rtt);
        recovery.reset(true);
        rtt.add_sample(kAnswer, true);
        (void)window.add({.psn_count = 20});
        for (int i = 0; i < 20; ++i) {
            window.advance_cursor();
        }
        ASSERT_TRUE(recovery.on_sequence_nak(0, Psn(100)));
        recovery.on_request_resent(0);
        for (int i = 0; i < reminders; ++i) {
            recovery.on_duplicate_ack(kAnswer / 3, Psn(100), 1'000'000);
        }
        for (int i = 0; i < 5; ++i) {
            recovery.on_duplicate_ack(kAnswer, Psn(100), 1'000'000);
        }
        EXPECT_TRUE(recovery.on_ack(kAnswer, Psn(101), window.cursor_psn(), false));
        (void)window.acknowledge(Psn(100));
        EXPECT_EQ(recovery.on_sequence_nak(kAnswer, Psn(101)), reminders == 2);
    }
}

}  // namespace
}  // namespace urnic::sim
