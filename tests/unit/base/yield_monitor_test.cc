#include "base/yield_monitor.h"

#include <gtest/gtest.h>

namespace urnic::abi {
namespace {

constexpr std::uint64_t kQuickNs = 2'000;
constexpr std::uint64_t kSliceNs = 4'000'000;

class YieldMonitorTest : public testing::Test {
  protected:
    void yield(std::uint64_t took_ns) {
        now_ += took_ns;
        monitor_.on_yield(now_, took_ns);
    }
    void yields(std::uint32_t count, std::uint64_t took_ns) {
        for (std::uint32_t i = 0; i < count; ++i) {
            yield(took_ns);
        }
    }
    [[nodiscard]] bool contended() const { return monitor_.contended(now_); }
    /// When what began now ends; `length_ns`: about how long it takes.
    [[nodiscard]] std::uint64_t end_of(std::uint64_t length_ns) const {
        return (now_ + length_ns / 2) / length_ns * length_ns + length_ns;
    }

    YieldMonitor monitor_;
    std::uint64_t now_ = 1'000'000'000;
};

TEST_F(YieldMonitorTest, QuickYieldsProveNothing) {
    yields(100'000, kQuickNs);
    EXPECT_FALSE(contended());
}

TEST_F(YieldMonitorTest, OneSlowYieldIsNoProofThreeAre) {
    yields(YieldMonitor::kSlowYields - 1, kSliceNs);
    EXPECT_FALSE(contended());
    yield(kSliceNs);
    EXPECT_TRUE(contended());
}

/// Quick yields that together take a part of a slow one.
constexpr std::uint32_t kEnough = kSliceNs / YieldMonitor::kQuickPart / kQuickNs;
static_assert(kEnough > YieldMonitor::kQuickYields);

TEST_F(YieldMonitorTest, SlowYieldsFarApartAreTheHypervisors) {
    for (int i = 0; i < 100; ++i) {
        yield(kSliceNs);
        yields(kEnough, kQuickNs);
        EXPECT_FALSE(contended());
    }
}

TEST_F(YieldMonitorTest, QuickYieldsOfLittleTimeDoNotHideAThreadThatComputes) {
    for (std::uint32_t i = 0; i < YieldMonitor::kSlowYields; ++i) {
        EXPECT_FALSE(contended());
        yield(kSliceNs);
        yields(kEnough - 1, kQuickNs);
    }
    EXPECT_TRUE(contended());
}

TEST_F(YieldMonitorTest, QuickYieldsOfLittleTimeDoNotHideThatItIsStillThere) {
    yields(YieldMonitor::kSlowYields, kSliceNs);
    now_ = end_of(YieldMonitor::kMinContendedNs);
    yields(YieldMonitor::kSlowYields - 1, kSliceNs);
    yields(kEnough - 1, kQuickNs);
    EXPECT_FALSE(contended());
    yield(kSliceNs);
    EXPECT_TRUE(contended());
}

TEST_F(YieldMonitorTest, AFewQuickYieldsBetweenThemDoNotHideAThreadThatComputes) {
    for (std::uint32_t i = 0; i < YieldMonitor::kSlowYields; ++i) {
        yield(kSliceNs);
        yields(YieldMonitor::kQuickYields - 1, kQuickNs);
    }
    EXPECT_TRUE(contended());
}

TEST_F(YieldMonitorTest, TriesAgainAndWaitsLongerEachTime) {
    yields(YieldMonitor::kSlowYields, kSliceNs);
    std::uint64_t wait_ns = YieldMonitor::kMinContendedNs;
    for (int i = 0; i < 10; ++i) {
        now_ = end_of(wait_ns) - 1;
        EXPECT_TRUE(contended());
        ++now_;
        EXPECT_FALSE(contended());
        yields(YieldMonitor::kSlowYields - 1, kSliceNs);
        EXPECT_FALSE(contended());
        yield(kSliceNs);  // still there
        EXPECT_TRUE(contended());
        wait_ns = std::min(2 * wait_ns, YieldMonitor::kMaxContendedNs);
    }
    now_ = end_of(wait_ns);
    yields(kEnough, kQuickNs);  // gone
    yields(YieldMonitor::kSlowYields, kSliceNs);
    now_ = end_of(YieldMonitor::kMinContendedNs);
    EXPECT_FALSE(contended()) << "it begins with the shortest time again";
}

TEST_F(YieldMonitorTest, ThreadsTryAgainTogether) {
    constexpr std::uint64_t kStepNs = 10'000'000;
    yields(YieldMonitor::kSlowYields, kSliceNs);
    now_ += 3 * kStepNs;
    // A second one that has been at it for longer.
    YieldMonitor other;
    for (std::uint32_t i = 0; i < 4 * YieldMonitor::kSlowYields; ++i) {
        other.on_yield(now_, kSliceNs);
    }
    ASSERT_TRUE(other.contended(now_));
    std::uint64_t both_ns = 0;
    for (const std::uint64_t give_up_at = now_ + 4 * YieldMonitor::kMaxContendedNs;
         both_ns == 0 && now_ < give_up_at; now_ += kStepNs) {
        const bool tries = !contended();
        const bool other_tries = !other.contended(now_);
        if (tries && other_tries) both_ns = now_;
        // Who tries alone finds the other one slow.
        for (std::uint32_t i = 0; tries && !other_tries && i < YieldMonitor::kSlowYields; ++i)
            yield(kSliceNs);
        for (std::uint32_t i = 0; other_tries && !tries && i < YieldMonitor::kSlowYields; ++i) {
            other.on_yield(now_, kSliceNs);
        }
    }
    EXPECT_NE(both_ns, 0U);
}

}  // namespace
}  // namespace urnic::abi
