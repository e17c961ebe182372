// How a worker falls asleep: it says so, looks once more, and only then blocks.
#include "dataplane/worker/idle_strategy.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>

namespace urnic::dataplane {
namespace {

using Round = IdleStrategy::Round;

class IdleStrategyTest : public testing::Test {
  protected:
    static constexpr TimeNs kMs = 1'000'000;

    [[nodiscard]] bool announced() const { return state_.workers[0].sleeping.load() != 0; }

    /// IdleStrategy rounds, one microsecond each, until it says that it sleeps.
    int rounds_to_announce(IdleStrategy& idle) {
        int rounds = 0;
        while (!announced() && rounds < 100'000) {
            now_ += 1'000;
            idle.after_round(Round::kIdle, now_, now_ + kMs);
            ++rounds;
        }
        return rounds;
    }

    abi::DaemonState state_{};
    WorkerWakeup wakeup_{state_, 1};
    TimeNs now_ = 1'000'000'000;
};

TEST_F(IdleStrategyTest, AnnouncesAndGivesTheWorkerOneMoreRound) {
    IdleStrategy idle(0, false, wakeup_);
    const std::lock_guard awake(idle.awake());
    EXPECT_EQ(rounds_to_announce(idle), static_cast<int>(IdleStrategy::kYieldMisses));
    // That round finds something: nobody slept, and the next sleep is as far away as ever.
    idle.after_round(Round::kBusy, now_, kNever);
    EXPECT_FALSE(announced());
    EXPECT_EQ(rounds_to_announce(idle), static_cast<int>(IdleStrategy::kYieldMisses));
    // It finds work that cannot go on: the same.
    idle.after_round(Round::kBlocked, now_, kNever);
    EXPECT_FALSE(announced());
}

TEST_F(IdleStrategyTest, SleepsUntilTheNextTimer) {
    IdleStrategy idle(0, false, wakeup_);
    const std::lock_guard awake(idle.awake());
    rounds_to_announce(idle);
    const auto before = std::chrono::steady_clock::now();
    idle.after_round(Round::kIdle, now_, now_ + 30 * kMs);
    EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(29));
    EXPECT_FALSE(announced());
}

TEST_F(IdleStrategyTest, AWakeBetweenAnnouncementAndSleepIsNotLost) {
    IdleStrategy idle(0, false, wakeup_);
    const std::lock_guard awake(idle.awake());
    const int client = eventfd(0, EFD_CLOEXEC);
    ASSERT_EQ(idle.watch_edges(client), 0);
    // Never read, so the second write finds the count above zero: it must wake all the same.
    for (int i = 0; i < 2; ++i) {
        rounds_to_announce(idle);
        ASSERT_EQ(eventfd_write(client, 1), 0);
        idle.after_round(Round::kIdle, now_, kNever);  // would never return
        rounds_to_announce(idle);
        wakeup_.wake(0);
        idle.after_round(Round::kIdle, now_, kNever);
    }
    idle.unwatch(client);
    close(client);
}

TEST_F(IdleStrategyTest, IsNobodysOwnWhileItSleeps) {
    IdleStrategy idle(0, false, wakeup_);
    const std::lock_guard awake(idle.awake());
    std::thread other([&] {
        // Not before it sleeps; and it does not go on before we have let go.
        const std::lock_guard asleep(idle.awake());
        EXPECT_TRUE(announced());
        wakeup_.wake(0);
        now_ += kMs;
    });
    rounds_to_announce(idle);
    const TimeNs announced_at = now_;
    idle.after_round(Round::kIdle, now_, kNever);
    EXPECT_EQ(now_, announced_at + kMs);
    other.join();
}

TEST_F(IdleStrategyTest, BlockedWorkNeverSleeps) {
    IdleStrategy idle(0, false, wakeup_);
    const std::lock_guard awake(idle.awake());
    for (int i = 0; i < 5'000; ++i) {
        idle.after_round(Round::kBlocked, now_ += 1'000, kNever);
        ASSERT_FALSE(announced());
    }
}

TEST_F(IdleStrategyTest, SpinsForATimeOnItsOwnCore) {
    IdleStrategy idle(0, true, wakeup_);
    const std::lock_guard awake(idle.awake());
    EXPECT_EQ(rounds_to_announce(idle), static_cast<int>(IdleStrategy::kSpinNs / 1'000) + 1);
}

TEST_F(IdleStrategyTest, SlowYieldsMakeItSleepAtOnceForAWhile) {
    IdleStrategy idle(0, false, wakeup_);
    const std::lock_guard awake(idle.awake());
    for (std::uint32_t i = 0; i < YieldMonitor::kSlowYields; ++i) {
        EXPECT_FALSE(announced());
        idle.after_round(Round::kIdle, now_, kNever);
        now_ += 3 * kMs;  // the yield gave somebody a whole time slice
        idle.after_round(Round::kBusy, now_, kNever);
    }
    EXPECT_EQ(rounds_to_announce(idle), 1);
    idle.after_round(Round::kBusy, now_, kNever);
    EXPECT_EQ(rounds_to_announce(idle), 1);
    idle.after_round(Round::kBusy, now_, kNever);
    now_ += static_cast<TimeNs>(2 * YieldMonitor::kMinContendedNs);
    EXPECT_EQ(rounds_to_announce(idle), static_cast<int>(IdleStrategy::kYieldMisses))
        << "it must try yielding again";
}

}  // namespace
}  // namespace urnic::dataplane
