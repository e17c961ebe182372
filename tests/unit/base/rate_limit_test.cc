#include "base/rate_limit.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

TEST(RateLimit, SoManyTimesInAnyInterval) {
    RateLimit<3, 100> limit;
    for (const TimeNs at : {TimeNs{0}, TimeNs{10}, TimeNs{20}}) {
        EXPECT_TRUE(limit.take(at));
    }
    EXPECT_FALSE(limit.take(99));
    EXPECT_TRUE(limit.take(100));
    EXPECT_FALSE(limit.take(109));
    EXPECT_TRUE(limit.take(110));
    EXPECT_TRUE(limit.take(1000));
}

TEST(TimeBudget, APartOfTheTimeThatPasses) {
    TimeBudget<100, 10> budget;
    EXPECT_TRUE(budget.has_some(5000));
    budget.spend(99);
    EXPECT_TRUE(budget.has_some(5000));
    budget.spend(51);
    EXPECT_FALSE(budget.has_some(5000));
    EXPECT_FALSE(budget.has_some(5500));
    EXPECT_TRUE(budget.has_some(5510));
    budget.spend(1);
    EXPECT_FALSE(budget.has_some(5519));
}

TEST(TimeBudget, WhoWaitsForLongHasNoMoreThanTheMost) {
    TimeBudget<100, 10> budget;
    EXPECT_TRUE(budget.has_some(1'000'000));
    budget.spend(100);
    EXPECT_FALSE(budget.has_some(1'000'000));
}

}  // namespace
}  // namespace urnic
