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

}  // namespace
}  // namespace urnic
