#include "dataplane/worker/round_watch.h"

#include <gtest/gtest.h>

#include <optional>

namespace urnic::dataplane {
namespace {

/// A tick is a nanosecond.
class RoundWatchTest : public testing::Test {
  protected:
    RoundWatchTest() {
        first_.id = {100, 1000};
        second_.id = {200, 2000};
    }

    void enter(const ProgramShare& program) {
        watch_.enter(program, [this] {
            ++readings_;
            return now_;
        });
    }
    void spend(TimeNs time) { now_ += time; }
    std::optional<LongRound> taken() {
        LongRound round;
        return watch_.take(round) ? std::optional(round) : std::nullopt;
    }
    /// A round in which each of the programs has that long.
    void round(TimeNs first, TimeNs second) {
        watch_.begin(now_);
        enter(first_);
        spend(first);
        enter(second_);
        spend(second);
        watch_.end(now_);
    }

    static constexpr TimeNs kMs = 1'000'000;
    std::uint64_t now_ = 5'000;
    std::uint32_t readings_ = 0;
    RoundWatch watch_{1'000'000'000};
    ProgramShare first_;
    ProgramShare second_;
};

TEST_F(RoundWatchTest, ALongRoundIsHisInWhoseTurnItWasLong) {
    round(20 * kMs, 31 * kMs);
    auto long_one = taken();
    ASSERT_TRUE(long_one);
    EXPECT_EQ(long_one->took_ns, 51 * kMs);
    EXPECT_EQ(long_one->longest_turn_ns, 31 * kMs);
    EXPECT_EQ(long_one->program.pid, 200);
    EXPECT_EQ(long_one->program.uid, 2000U);
    round(300 * kMs, kMs);
    long_one = taken();
    ASSERT_TRUE(long_one);
    EXPECT_EQ(long_one->program.pid, 100);
    EXPECT_FALSE(taken());
    EXPECT_EQ(watch_.long_rounds(), 2U);
}

TEST_F(RoundWatchTest, WhoseMemoryWasCopiedIsNamedToo) {
    const auto enter_copy = [this](const ProgramShare& program, const ProgramShare& sender) {
        watch_.enter(program, sender, [this] { return now_; });
    };
    watch_.begin(now_);
    enter_copy(first_, second_);
    spend(60 * kMs);
    enter(first_);
    spend(10 * kMs);
    enter_copy(first_, second_);
    spend(10 * kMs);
    enter(second_);
    spend(20 * kMs);
    watch_.end(now_);
    auto long_one = taken();
    ASSERT_TRUE(long_one);
    EXPECT_EQ(long_one->longest_turn_ns, 60 * kMs);
    EXPECT_EQ(long_one->program.pid, 100);
    EXPECT_EQ(long_one->sender.pid, 200);
    round(60 * kMs, kMs);
    long_one = taken();
    ASSERT_TRUE(long_one);
    EXPECT_EQ(long_one->sender.pid, 0);
}

TEST_F(RoundWatchTest, ShortRoundsAreNobodysBusiness) {
    for (int i = 0; i < 100; ++i) {
        round(25 * kMs, 25 * kMs);
        spend(1000 * kMs);  // asleep, or another thread had the processor
    }
    EXPECT_FALSE(taken());
    EXPECT_EQ(watch_.long_rounds(), 0U);
}

TEST_F(RoundWatchTest, TimeOutsideOfTurnsIsNobodys) {
    round(kMs, kMs);
    watch_.begin(now_);
    spend(60 * kMs);
    watch_.end(now_);
    const auto long_one = taken();
    ASSERT_TRUE(long_one);
    EXPECT_EQ(long_one->longest_turn_ns, 0U);
    EXPECT_EQ(long_one->program.pid, 0);
}

TEST_F(RoundWatchTest, TheTimeIsReadWhenAnotherProgramComes) {
    watch_.begin(now_);
    for (int i = 0; i < 10; ++i) {
        enter(first_);
    }
    EXPECT_EQ(readings_, 1U);
}

TEST_F(RoundWatchTest, RecordsThatNobodyTakesAreCountedAlone) {
    for (std::uint32_t i = 0; i < RoundWatch::kRecords + 5; ++i) {
        round(60 * kMs + i * kMs, 0);
    }
    for (std::uint32_t i = 0; i < RoundWatch::kRecords; ++i) {
        const auto long_one = taken();
        ASSERT_TRUE(long_one);
        EXPECT_EQ(long_one->took_ns, 60 * kMs + i * kMs) << "the oldest first";
    }
    EXPECT_FALSE(taken());
    EXPECT_EQ(watch_.long_rounds(), RoundWatch::kRecords + 5);
    round(60 * kMs, 0);
    EXPECT_TRUE(taken()) << "there is room again";
}

}  // namespace
}  // namespace urnic::dataplane
