#include "base/handle_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

namespace urnic {
namespace {

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

TEST(HandleTable, CountsUpFromOne) {
    HandleTable<int> table;
    EXPECT_EQ(table.add(std::make_unique<int>(7)), 1U);
    table.remove(1);
    EXPECT_EQ(table.add(std::make_unique<int>(8)), 2U) << "a stale handle finds nothing";
    EXPECT_EQ(table.find(1), nullptr);
    EXPECT_EQ(*table.find(2), 8);
}

TEST(HandleTable, HandlesComeRoundPastThoseInUseAndNeverToZero) {
    std::uint32_t total = 0;
    HandleTable<int> table(total, {}, kMost - 1);
    EXPECT_EQ(table.add(std::make_unique<int>(0)), kMost - 1);
    EXPECT_EQ(table.add(std::make_unique<int>(0)), kMost);
    EXPECT_EQ(table.add(std::make_unique<int>(0)), 1U);
    HandleTable<int> few(total, {.first = 1, .last = 3});
    for (const std::uint32_t expected : {1U, 2U, 3U}) {
        EXPECT_EQ(few.add(std::make_unique<int>(0)), expected);
    }
    few.remove(2);
    EXPECT_EQ(few.add(std::make_unique<int>(0)), 2U);
    EXPECT_EQ(total, 6U);
}

// As those of QPs and those of XRC targets, which one table has below and the other above.
TEST(HandleTable, HandlesStayInTheirRange) {
    constexpr std::uint32_t kHalf = 1U << 31U;
    std::uint32_t total = 0;
    HandleTable<int> below(total, {.first = 1, .last = kHalf - 1}, kHalf - 1);
    EXPECT_EQ(below.add(std::make_unique<int>(0)), kHalf - 1);
    EXPECT_EQ(below.add(std::make_unique<int>(0)), 1U);
    HandleTable<int> above(total, {.first = kHalf}, kMost);
    EXPECT_EQ(above.add(std::make_unique<int>(0)), kMost);
    EXPECT_EQ(above.add(std::make_unique<int>(0)), kHalf);
}

}  // namespace
}  // namespace urnic
