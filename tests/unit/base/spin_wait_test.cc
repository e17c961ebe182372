#include "base/spin_wait.h"

#include <gtest/gtest.h>

namespace urnic::abi {
namespace {

TEST(SpinWait, LooksAgainForAMomentAndThenSleeps) {
    SpinWait spin;
    const std::uint64_t now = 1'000'000'000;
    spin.begin(now);
    EXPECT_TRUE(spin.should_poll(now));
    EXPECT_TRUE(spin.should_poll(now + SpinWait::kSpinNs - 1));
    EXPECT_FALSE(spin.should_poll(now + SpinWait::kSpinNs));
    EXPECT_FALSE(spin.should_poll(now + SpinWait::kSpinNs + 1));
}

TEST(SpinWait, InVainItBecomesRareUntilItPays) {
    SpinWait spin;
    std::uint64_t now = 1'000'000'000;
    const auto in_vain = [&] {
        spin.begin(now);
        const bool spun = spin.should_poll(now);
        now += SpinWait::kSpinNs;
        EXPECT_FALSE(spin.should_poll(now));
        return spun;
    };
    for (std::uint32_t i = 0; i < SpinWait::kTries; ++i) {
        EXPECT_TRUE(in_vain());
    }
    std::uint32_t spun = 0;
    for (std::uint32_t i = 0; i < 10 * SpinWait::kRarely; ++i) {
        spun += in_vain() ? 1 : 0;
    }
    EXPECT_EQ(spun, 10U);
    for (std::uint32_t i = 0; i < SpinWait::kRarely; ++i) {
        spin.begin(now);
        if (spin.should_poll(now)) {
            spin.on_progress();
        }
    }
    EXPECT_TRUE(in_vain()) << "one that paid makes all spin again";
    spin.begin(now);
    EXPECT_TRUE(spin.should_poll(now));
}

TEST(SpinWait, WhatASleeperFindsSaysNothing) {
    SpinWait spin;
    for (std::uint32_t i = 0; i < SpinWait::kTries; ++i) {
        spin.begin(0);
        EXPECT_FALSE(spin.should_poll(SpinWait::kSpinNs));
        spin.on_progress();
    }
    spin.begin(0);
    EXPECT_FALSE(spin.should_poll(0));
}

}  // namespace
}  // namespace urnic::abi
