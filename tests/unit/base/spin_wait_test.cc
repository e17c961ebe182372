#include "base/spin_wait.h"

#include <gtest/gtest.h>

namespace urnic::abi {
namespace {

TEST(SpinWait, LooksAgainForAMomentAndThenSleeps) {
    SpinWait spin;
    const std::uint64_t now = 1'000'000'000;
    spin.begin(now);
    EXPECT_TRUE(spin.looks_again(now));
    EXPECT_TRUE(spin.looks_again(now + SpinWait::kSpinNs - 1));
    EXPECT_FALSE(spin.looks_again(now + SpinWait::kSpinNs));
    EXPECT_FALSE(spin.looks_again(now + SpinWait::kSpinNs + 1));
}

TEST(SpinWait, InVainItBecomesRareUntilItPays) {
    SpinWait spin;
    std::uint64_t now = 1'000'000'000;
    const auto in_vain = [&] {
        spin.begin(now);
        const bool spun = spin.looks_again(now);
        now += SpinWait::kSpinNs;
        EXPECT_FALSE(spin.looks_again(now));
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
        if (spin.looks_again(now)) {
            spin.found();
        }
    }
    EXPECT_TRUE(in_vain()) << "one that paid makes all spin again";
    spin.begin(now);
    EXPECT_TRUE(spin.looks_again(now));
}

TEST(SpinWait, WhatASleeperFindsSaysNothing) {
    SpinWait spin;
    for (std::uint32_t i = 0; i < SpinWait::kTries; ++i) {
        spin.begin(0);
        EXPECT_FALSE(spin.looks_again(SpinWait::kSpinNs));
        spin.found();
    }
    spin.begin(0);
    EXPECT_FALSE(spin.looks_again(0));
}

}  // namespace
}  // namespace urnic::abi
