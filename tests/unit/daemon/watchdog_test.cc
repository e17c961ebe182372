#include "daemon/watchdog.h"

#include <gtest/gtest.h>

#include <array>

namespace urnic::daemon {
namespace {

constexpr TimeNs kLookNs = 250'000'000;

/// Two workers that sleep until they are woken; one that is stuck makes no round then either.
class WatchdogTest : public testing::Test {
  protected:
    void look(int times) {
        for (int i = 0; i < times; ++i) {
            now_ += kLookNs;
            watchdog_.look(now_);
        }
    }

    TimeNs now_ = 0;
    std::array<std::uint64_t, 2> rounds_{1, 1};
    std::array<bool, 2> is_stuck_{};
    int told_ = 0;
    Watchdog watchdog_{{2, [this](std::size_t worker) { return rounds_[worker]; },
                        [this](std::size_t worker) { rounds_[worker] += is_stuck_[worker] ? 0 : 1; }},
                       [this] { ++told_; }};
};

TEST_F(WatchdogTest, WorkersThatSleepAreAlive) {
    look(10);
    EXPECT_EQ(told_, 10);
}

TEST_F(WatchdogTest, OneThatIsStuckEndsIt) {
    for (const std::size_t worker : {0, 1}) {
        look(2);
        is_stuck_[worker] = true;
        look(1);  // it had made one round since the last
        const int told = told_;
        look(10);
        EXPECT_EQ(told_, told) << worker;
        is_stuck_[worker] = false;
        look(2);
        EXPECT_EQ(told_, told + 1) << "woken at the first of them, seen at the second";
    }
}

TEST_F(WatchdogTest, AnotherOneThatMovesDoesNotHideIt) {
    look(1);
    is_stuck_[0] = true;
    look(1);
    const int told = told_;
    for (int i = 0; i < 10; ++i) {
        rounds_[1] += 100;
        look(1);
    }
    EXPECT_EQ(told_, told);
}

}  // namespace
}  // namespace urnic::daemon
