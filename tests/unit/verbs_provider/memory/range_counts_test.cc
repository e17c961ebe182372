#include "verbs_provider/memory/range_counts.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <vector>

namespace urnic::memory {
namespace {

constexpr std::uint64_t kPages = 64;

std::uint64_t seed() {
    const char* given = std::getenv("URNIC_TEST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

/// The same thing, one counter a page.
struct Model {
    std::array<std::uint32_t, kPages> count{};

    std::uint64_t stretches() const {
        std::uint64_t n = 0;
        for (std::uint64_t i = 0; i < kPages; ++i) {
            n += static_cast<std::uint64_t>(count[i] != 0 && (i == 0 || count[i - 1] == 0));
        }
        return n;
    }
    Range first(Range within, bool covered) const {
        std::uint64_t at = within.start;
        while (at < within.end && (count[at] != 0) != covered) {
            ++at;
        }
        std::uint64_t end = at;
        while (end < within.end && (count[end] != 0) == covered) {
            ++end;
        }
        return at < end ? Range{at, end} : Range{};
    }
};

TEST(RangeCounts, CountsOverlaps) {
    RangeCounts counts;
    counts.add({10, 20});
    counts.add({15, 30});
    EXPECT_EQ(counts.count_at(9), 0U);
    EXPECT_EQ(counts.count_at(10), 1U);
    EXPECT_EQ(counts.count_at(15), 2U);
    EXPECT_EQ(counts.count_at(20), 1U);
    EXPECT_EQ(counts.count_at(30), 0U);
    EXPECT_TRUE(counts.is_covered({10, 30}));
    EXPECT_FALSE(counts.is_covered({10, 31}));
    EXPECT_EQ(counts.stretches(), 1U);
    counts.subtract({10, 20});
    EXPECT_EQ(counts.first({0, 100}, true), (Range{15, 30}));
    EXPECT_EQ(counts.first({0, 100}, false), (Range{0, 15}));
    EXPECT_EQ(counts.uncovered_around({12, 13}), (Range{0, 15}));
    counts.subtract({15, 30});
    EXPECT_TRUE(counts.empty());
    EXPECT_EQ(counts.first({0, 100}, true), Range{});
}

TEST(RangeCounts, AgreesWithOneCounterForEachPage) {
    const std::uint64_t used_seed = seed();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(used_seed));
    std::mt19937_64 random(used_seed);
    for (int round = 0; round < 50; ++round) {
        RangeCounts counts;
        Model model;
        std::vector<Range> live;
        for (int step = 0; step < 200; ++step) {
            if (!live.empty() && random() % 2 == 0) {
                std::swap(live[random() % live.size()], live.back());
                const Range range = live.back();
                live.pop_back();
                counts.subtract(range);
                for (std::uint64_t i = range.start; i < range.end; ++i) {
                    --model.count[i];
                }
            } else {
                const std::uint64_t start = random() % kPages;
                const Range range{start, start + 1 + random() % (kPages - start)};
                live.push_back(range);
                ASSERT_TRUE(counts.reserve());
                counts.add(range);
                for (std::uint64_t i = range.start; i < range.end; ++i) {
                    ++model.count[i];
                }
            }
            for (std::uint64_t i = 0; i < kPages; ++i) {
                ASSERT_EQ(counts.count_at(i), model.count[i]) << "page " << i << " step " << step;
            }
            ASSERT_EQ(counts.stretches(), model.stretches());
            const std::uint64_t start = random() % kPages;
            const Range within{start, start + 1 + random() % (kPages - start)};
            ASSERT_EQ(counts.first(within, true), model.first(within, true));
            ASSERT_EQ(counts.first(within, false), model.first(within, false));
        }
    }
}

}  // namespace
}  // namespace urnic::memory
