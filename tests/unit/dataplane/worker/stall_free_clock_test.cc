#include "dataplane/worker/stall_free_clock.h"

#include <gtest/gtest.h>

namespace urnic::dataplane {
namespace {

constexpr TimeNs kMs = 1'000'000;

TEST(AttendedTime, GoesWithTheClockWhileTheWorkerRuns) {
    AttendedTime time(1000);
    EXPECT_EQ(time.advance(1500), 1500U);
    EXPECT_EQ(time.advance(1500), 1500U);
    EXPECT_EQ(time.advance(1500 + AttendedTime::kRoundNs), 1500U + AttendedTime::kRoundNs);
}

TEST(AttendedTime, StandsStillWhileTheWorkerIsKeptFromRunning) {
    AttendedTime time(0);
    EXPECT_EQ(time.advance(500 * kMs), AttendedTime::kRoundNs);
    EXPECT_EQ(time.advance(500 * kMs + 100), AttendedTime::kRoundNs + 100);
    EXPECT_EQ(time.on_clock(AttendedTime::kRoundNs + 300), 500 * kMs + 300);
    EXPECT_EQ(time.on_clock(5), 500 * kMs + 100);  // it is over
    EXPECT_EQ(time.on_clock(kNever), kNever);
}

TEST(AttendedTime, SleepingIsListening) {
    AttendedTime time(0);
    time.slept(60 * kMs);
    EXPECT_EQ(time.advance(60 * kMs), 60 * kMs);
    time.slept(kNever);
    EXPECT_EQ(time.advance(9000 * kMs), 9000 * kMs);
    EXPECT_EQ(time.advance(9001 * kMs), 9000 * kMs + AttendedTime::kRoundNs);
}

TEST(AttendedTime, WhoWakesUpTooLateWasAway) {
    AttendedTime time(0);
    time.slept(10 * kMs);
    EXPECT_EQ(time.advance(100 * kMs), 10 * kMs + AttendedTime::kRoundNs);
}

}  // namespace
}  // namespace urnic::dataplane
