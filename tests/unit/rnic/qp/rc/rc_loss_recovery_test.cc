// What an RC requester decides to send again, without a QP around it; tests/sim/scripts has it packet by
// packet.
#include "rnic/qp/rc/rc_loss_recovery.h"

#include <gtest/gtest.h>

#include "rnic/qp/rc/send_window.h"

namespace urnic {
namespace {

constexpr TimeNs kRttNs = 1'000;
constexpr TimeNs kAckTimeoutNs = 1'000'000'000;
constexpr TimeNs kLateNs = 10'000'000;

/// A requester that has sent all packets of one WQE, from PSN 100 on.
struct Requester {
    explicit Requester(const InflightWqe& wqe) {
        window.reset(Psn(100));
        recovery.reset(true);
        (void)window.add(wqe);
        send_all();
    }
    void send_all() {
        while (window.cursor_psn() != window.next_psn()) {
            window.advance_cursor();
        }
    }
    /// Everything before `end` is acknowledged. Returns as RcLossRecovery::on_ack() does.
    bool on_ack(TimeNs now, Psn end, bool is_plain_ack) {
        const bool is_active = recovery.on_ack(now, end, window.cursor_psn(), is_plain_ack);
        (void)window.acknowledge(end - 1);
        return is_active;
    }
    void go_back(TimeNs now) {
        window.rewind();
        recovery.cancel_after_loss(now);
    }

    SendWindow window;
    RttEstimator rtt;
    RcLossRecovery recovery{window, rtt};
};

TEST(RcLossRecovery, AnAcknowledgementBeyondWhatWasSentAgainShowsThatThePeerHolds) {
    Requester a({.psn_count = 10});
    // It held nothing behind the first loss.
    EXPECT_TRUE(a.recovery.on_sequence_nak(0, Psn(100)));
    EXPECT_TRUE(a.recovery.must_resend_request());
    a.recovery.on_request_resent(0);
    EXPECT_FALSE(a.on_ack(1, Psn(101), true));
    a.go_back(1);
    // From then on everything goes again, of which two packets have gone when it acknowledges five.
    a.window.advance_cursor();
    a.window.advance_cursor();
    EXPECT_FALSE(a.recovery.on_sequence_nak(2, Psn(101)));
    a.go_back(2);
    a.window.advance_cursor();
    a.window.advance_cursor();
    EXPECT_TRUE(a.on_ack(3, Psn(106), true));
    a.window.advance_cursor();
    EXPECT_TRUE(a.recovery.on_sequence_nak(4, Psn(106)));
}

TEST(RcLossRecovery, APeerThatRepeatsItselfLongAfterTheLastLossHoldsAfterAll) {
    Requester a({.psn_count = 10});
    // Two losses in a row: it looks as if it discarded.
    EXPECT_TRUE(a.recovery.on_sequence_nak(0, Psn(100)));
    a.recovery.on_request_resent(0);
    (void)a.window.acknowledge(Psn(100));
    EXPECT_FALSE(a.recovery.on_sequence_nak(1, Psn(101)));
    a.go_back(1);
    // While things go again, and for a while after that, duplicates draw such acknowledgements.
    a.window.advance_cursor();
    a.recovery.on_duplicate_ack(kLateNs, Psn(101), kAckTimeoutNs);
    EXPECT_FALSE(a.recovery.must_resend_request());
    a.send_all();
    a.recovery.on_duplicate_ack(2, Psn(101), kAckTimeoutNs);
    EXPECT_FALSE(a.recovery.must_resend_request());
    a.recovery.on_duplicate_ack(kLateNs, Psn(101), kAckTimeoutNs);
    EXPECT_TRUE(a.recovery.must_resend_request());
    EXPECT_EQ(a.recovery.resend_psn(), Psn(101));
    a.recovery.on_request_resent(kLateNs);
    // Another gap, and what is between them was held.
    EXPECT_TRUE(a.recovery.on_sequence_nak(kLateNs + 1, Psn(104)));
}

// A worker that came late handles the ACK timeout alone; the next call must lie ahead.
TEST(RcLossRecovery, AfterEverythingGoesAgainItsPatienceBeginsAnew) {
    Requester a({.psn_count = 3, .has_response = true});
    EXPECT_TRUE(a.recovery.responses().on_gap(0, Psn(102)));
    EXPECT_LT(a.recovery.deadline(0, kAckTimeoutNs), kLateNs);
    a.window.rewind();
    a.recovery.cancel(kLateNs);
    EXPECT_GT(a.recovery.deadline(0, kAckTimeoutNs), kLateNs);
}

// What seems to hold and never has more than what went again: it comes to the same as going back N, after a
// window in runs that double.
TEST(RcLossRecovery, APeerThatWasTakenForOneThatHoldsIsNoticed) {
    Requester a({.psn_count = 400});
    EXPECT_TRUE(a.recovery.on_sequence_nak(0, Psn(100)));
    a.recovery.on_request_resent(0);
    EXPECT_TRUE(a.on_ack(1, Psn(102), true));
    Psn missing(102);
    for (std::uint32_t run = 1; run <= 128; run *= 2) {
        ASSERT_TRUE(a.recovery.on_sequence_nak(2, missing));
        for (std::uint32_t i = 0; i < run; ++i, ++missing) {
            ASSERT_TRUE(a.recovery.must_resend_request());
            EXPECT_EQ(a.recovery.resend_psn(), missing);
            a.recovery.on_request_resent(2);
        }
        EXPECT_FALSE(a.recovery.must_resend_request());
        EXPECT_TRUE(a.on_ack(3, missing, false));
    }
    EXPECT_FALSE(a.recovery.on_sequence_nak(4, missing));
}

// The second packet overtakes the first: a peer that discards says that it misses the first, and a moment
// later that it misses what came while it did.
TEST(RcLossRecovery, WhatComesSoonerThanAnyAnswerDoesNotShowThatThePeerHolds) {
    for (const bool soon : {true, false}) {
        Requester a({.psn_count = 20});
        a.rtt.add_sample(5 * kRttNs, true);
        a.rtt.add_sample(kRttNs, true);
        a.rtt.add_sample(7 * kRttNs, true);
        ASSERT_TRUE(a.recovery.on_sequence_nak(0, Psn(100)));
        a.recovery.on_request_resent(0);
        const TimeNs now = soon ? kRttNs / 3 : kRttNs;
        EXPECT_TRUE(a.on_ack(now, Psn(102), false));
        ASSERT_TRUE(a.recovery.on_sequence_nak(now, Psn(102)));
        a.recovery.on_request_resent(now);
        EXPECT_TRUE(a.on_ack(3 * kRttNs, Psn(103), false));
        EXPECT_EQ(a.recovery.on_sequence_nak(3 * kRttNs, Psn(103)), !soon);
        // The same of what goes again from there on.
        if (soon) {
            a.go_back(4 * kRttNs);
            a.window.advance_cursor();
            EXPECT_TRUE(a.on_ack(4 * kRttNs + kRttNs / 3, Psn(106), false));
            a.window.advance_cursor();
            EXPECT_FALSE(a.recovery.on_sequence_nak(5 * kRttNs, Psn(106)));
        }
    }
}

// A peer that holds repeats its acknowledgement when more comes early; one that discards is silent.
TEST(RcLossRecovery, APeerThatRepeatsItselfAtOnceHolds) {
    for (const int duplicates : {0, 1, 2}) {
        Requester a({.psn_count = 20});
        a.rtt.add_sample(kRttNs, true);
        ASSERT_TRUE(a.recovery.on_sequence_nak(0, Psn(100)));
        a.recovery.on_request_resent(0);
        for (int i = 0; i < duplicates; ++i) {
            a.recovery.on_duplicate_ack(kRttNs / 3, Psn(100), kAckTimeoutNs);
        }
        for (int i = 0; i < 5; ++i) {
            a.recovery.on_duplicate_ack(kRttNs, Psn(100), kAckTimeoutNs);
        }
        EXPECT_TRUE(a.on_ack(kRttNs, Psn(101), false));
        EXPECT_EQ(a.recovery.on_sequence_nak(kRttNs, Psn(101)), duplicates == 2);
    }
}

// What was asked for again may be answered when nothing looks for it any more.
TEST(ProbeTimer, ASampleOfALossOfLongAgoIsForgotten) {
    constexpr TimeNs kHourNs = 3'600'000'000'000;
    RttEstimator rtt;
    ProbeTimer timer(rtt);
    timer.on_loss(0);
    timer.start_sample(Psn(100));
    timer.on_retransmit(0);
    timer.on_ack(kAckTimeoutNs);
    EXPECT_FALSE(timer.has_recent_loss());
    timer.on_loss(kHourNs);
    timer.end_sample(kHourNs, Psn(200));
    EXPECT_EQ(rtt.max_retransmit_ns(), RttEstimator::kInitialRttNs);
    // One of this loss counts.
    timer.start_sample(Psn(200));
    timer.on_retransmit(kHourNs);
    timer.on_loss(kHourNs);
    timer.end_sample(kHourNs + 10 * kLateNs, Psn(201));
    EXPECT_EQ(rtt.max_retransmit_ns(), 10 * kLateNs);
}

TEST(ReadRetryRanges, WhatIsBeforeTheWindowIsForgottenAtOnce) {
    ReadRetryRanges gaps;
    gaps.add(Psn(100), Psn(100), Psn(101), Psn(102));
    gaps.add(Psn(100), Psn(110), Psn(111), Psn(112));
    gaps.add(Psn(100), Psn(120), Psn(121), Psn(122));
    EXPECT_TRUE(gaps.contains(Psn(101)));
    EXPECT_TRUE(gaps.contains(Psn(111)));
    gaps.add(Psn(115), Psn(130), Psn(131), Psn(132));
    EXPECT_FALSE(gaps.contains(Psn(101)));
    EXPECT_FALSE(gaps.contains(Psn(111))) << "2^24 packets later it would be another one's";
    EXPECT_TRUE(gaps.contains(Psn(121)));
    EXPECT_TRUE(gaps.contains(Psn(131)));
    gaps.add(Psn(115), Psn(120), Psn(125), Psn(126));
    EXPECT_FALSE(gaps.contains(Psn(121))) << "a READ has one gap";
    EXPECT_TRUE(gaps.contains(Psn(125)));
}

}  // namespace
}  // namespace urnic
