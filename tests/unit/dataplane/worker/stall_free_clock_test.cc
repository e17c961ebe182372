#include "dataplane/worker/stall_free_clock.h"

#include <gtest/gtest.h>

namespace urnic::dataplane {
namespace {

constexpr TimeNs kMs = 1'000'000;

TEST(StallFreeClock, GoesWithTheClockWhileTheWorkerRuns) {
    StallFreeClock time(1000);
    EXPECT_EQ(time.advance(1500), 1500U);
    EXPECT_EQ(time.advance(1500), 1500U);
    EXPECT_EQ(time.advance(1500 + StallFreeClock::kRoundNs), 1500U + StallFreeClock::kRoundNs);
}

TEST(StallFreeClock, StandsStillWhileTheWorkerIsKeptFromRunning) {
    StallFreeClock time(0);
    EXPECT_EQ(time.advance(500 * kMs), StallFreeClock::kRoundNs);
    EXPECT_EQ(time.advance(500 * kMs + 100), StallFreeClock::kRoundNs + 100);
    EXPECT_EQ(time.to_clock(StallFreeClock::kRoundNs + 300), 500 * kMs + 300);
    EXPECT_EQ(time.to_clock(5), 500 * kMs + 100);  // it is over
    EXPECT_EQ(time.to_clock(kNever), kNever);
}

TEST(StallFreeClock, SleepingIsListening) {
    StallFreeClock time(0);
    time.slept(60 * kMs);
    EXPECT_EQ(time.advance(60 * kMs), 60 * kMs);
    time.slept(kNever);
    EXPECT_EQ(time.advance(9000 * kMs), 9000 * kMs);
    EXPECT_EQ(time.advance(9001 * kMs), 9000 * kMs + StallFreeClock::kRoundNs);
}

TEST(StallFreeClock, WhoWakesUpTooLateWasAway) {
    StallFreeClock time(0);
    time.slept(10 * kMs);
    EXPECT_EQ(time.advance(100 * kMs), 10 * kMs + StallFreeClock::kRoundNs);
}

}  // namespace
}  // namespace urnic::dataplane
