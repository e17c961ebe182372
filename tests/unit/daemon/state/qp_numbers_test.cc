#include "daemon/state/qp_numbers.h"

#include <gtest/gtest.h>

#include <set>

namespace urnic::daemon {
namespace {

TEST(QpNumbers, OneSaysNothingOfTheNext) {
    QpNumbers numbers(1);
    std::uint32_t previous = numbers.allocate(0).value();
    int neighbours = 0;
    for (int i = 0; i < 100; ++i) {
        const std::uint32_t next = numbers.allocate(0).value();
        neighbours += next == previous + 1 ? 1 : 0;
        previous = next;
    }
    EXPECT_LT(neighbours, 50) << "of a hundred; where numbers count up it is all of them";
}

TEST(QpNumbers, ABlockIsUsedUpBeforeTheNext) {
    QpNumbers numbers(1);
    std::set<std::uint32_t> blocks;
    std::set<std::uint32_t> all;
    for (std::uint32_t i = 0; i < 4 * QpNumbers::kBlockNumbers; ++i) {
        const std::uint32_t number = numbers.allocate(0).value();
        EXPECT_TRUE(all.insert(number).second);
        blocks.insert(number / QpNumbers::kBlockNumbers);
    }
    // The first and the last block of all lack the reserved numbers.
    EXPECT_LE(blocks.size(), 5U);
}

TEST(QpNumbers, AFreedOneComesBackAfterItsBlock) {
    QpNumbers numbers(1);
    const std::uint32_t first = numbers.allocate(0).value();
    numbers.free(first);
    for (std::uint32_t i = 0; i < 3 * QpNumbers::kBlockNumbers; ++i) {
        const std::uint32_t number = numbers.allocate(0).value();
        EXPECT_NE(number, first);
        numbers.free(number);
    }
}

TEST(QpNumbers, TellTheWorker) {
    constexpr std::uint32_t kWorkers = 3;
    QpNumbers numbers(kWorkers);
    for (std::uint32_t i = 0; i < 2000; ++i) {
        EXPECT_EQ(numbers.allocate(i % kWorkers).value() % kWorkers, i % kWorkers);
    }
}

TEST(QpNumbers, ReservedOnesAreNotHandedOut) {
    QpNumbers numbers(1);
    EXPECT_FALSE(numbers.reserve(0));
    EXPECT_FALSE(numbers.reserve(1));
    EXPECT_FALSE(numbers.reserve(0xff'ffff));
    EXPECT_FALSE(numbers.reserve(0x100'0000));
    const std::uint32_t next = numbers.allocate(0).value() ^ 1U;
    if (next > 1 && next != 0xff'ffff) {
        EXPECT_TRUE(numbers.reserve(next));
        EXPECT_FALSE(numbers.reserve(next));
        for (std::uint32_t i = 0; i < QpNumbers::kBlockNumbers; ++i) {
            EXPECT_NE(numbers.allocate(0).value(), next);
        }
    }
}

}  // namespace
}  // namespace urnic::daemon
