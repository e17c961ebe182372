#include "rnic/device/message_histograms.h"

#include <gtest/gtest.h>

#include <limits>

namespace urnic {
namespace {

using Small = Log2Histogram<3, 5>;  // 8, 16, 32, and what is larger

TEST(Log2Histogram, ABoundBelongsToItsBucket) {
    static_assert(Small::kBounds == 3 && Small::bound(0) == 8 && Small::bound(2) == 32);
    const struct {
        std::uint64_t value;
        std::size_t bucket;
    } cases[] = {{0, 0},  {1, 0},  {8, 0},           {9, 1},
                 {16, 1}, {17, 2}, {32, 2},          {33, 3},
                 {64, 3}, {65, 3}, {1ULL << 40U, 3}, {std::numeric_limits<std::uint64_t>::max(), 3}};
    for (const auto& [value, bucket] : cases) {
        Small histogram;
        histogram.add(value);
        for (std::size_t i = 0; i <= Small::kBounds; ++i) {
            EXPECT_EQ(histogram.count(i), i == bucket ? 1U : 0U) << value << " in " << i;
        }
        EXPECT_EQ(histogram.sum(), value);
    }
}

TEST(Log2Histogram, CountsAndSumsAdd) {
    Small histogram;
    for (std::uint64_t value = 0; value <= 40; ++value) {
        histogram.add(value);
    }
    EXPECT_EQ(histogram.count(0), 9U);
    EXPECT_EQ(histogram.count(1), 8U);
    EXPECT_EQ(histogram.count(2), 16U);
    EXPECT_EQ(histogram.count(3), 8U);
    EXPECT_EQ(histogram.sum(), 820U);
}

TEST(MessageHistograms, EachCompletionIsOfAnOperation) {
    EXPECT_EQ(message_operation(WcOpcode::kSend), MessageOperation::kSend);
    EXPECT_EQ(message_operation(WcOpcode::kRdmaWrite), MessageOperation::kWrite);
    EXPECT_EQ(message_operation(WcOpcode::kRdmaRead), MessageOperation::kRead);
    EXPECT_EQ(message_operation(WcOpcode::kFlush), MessageOperation::kFlush);
    for (const WcOpcode atomic : {WcOpcode::kCompSwap, WcOpcode::kFetchAdd, WcOpcode::kAtomicWrite}) {
        EXPECT_EQ(message_operation(atomic), MessageOperation::kAtomic);
    }
}

}  // namespace
}  // namespace urnic
