// Loss recovery between two real ends over time: what gets lost of it again, and silence (docs/adr/0007).
// What each end has to do is in scripts/selective_recovery.cc.
#include <set>

#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;

class RcLossRecoveryTest : public RcPair {
  protected:
    void connect_holders(bool a_holds, bool b_holds, const ConnectOptions& options = {}) {
        SimHost::Options a;
        a.holds_early_packets = a_holds;
        SimHost::Options b;
        b.holds_early_packets = b_holds;
        connect_pair(options, a, b);
    }
    /// Both ends hold what comes early, and A knows it of B; one packet went again for that.
    void connect_to_known_holder(const ConnectOptions& options) {
        connect_holders(true, true, options);
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

TEST_F(RcLossRecoveryTest, WhatIsLostOfARunGoesOnceMoreLongBeforeTheTimeout) {
    for (const std::vector<int>& again : {std::vector{22}, {23}, {24}, {22, 23, 24}, {21, 22, 23, 24}}) {
        net_ = SimNetwork();
        connect_to_known_holder({.timeout = 20});  // 4.3 s
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

// A WRITE that completes when the READ before it does has had its round trip; the idle time behind it has
// nothing to do with it.
TEST_F(RcLossRecoveryTest, TimeInWhichNothingWasSentIsNoRoundTrip) {
    constexpr TimeNs kTimeoutNs = 268'435'456;
    connect_holders(true, true, {.timeout = 16});
    lose("B", {1});
    a_->post_send(read(1, 8));
    a_->post_send(write(2, 8, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    net_.run_for(3'600'000'000'000);
    a_->post_send(write(3, 8, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(3)));
    lose("A", {1});
    const TimeNs before = net_.now();
    a_->post_send(write(4, 8, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(4)));
    EXPECT_EQ(a_->counters.local_ack_timeout_err.value(), 1U);
    EXPECT_LT(net_.now() - before, 2 * kTimeoutNs);
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

}  // namespace
}  // namespace urnic::sim
