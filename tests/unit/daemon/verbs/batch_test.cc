#include "daemon/verbs/batch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace urnic::daemon {
namespace {

struct WithRings {
    RingPiece memory;
};
struct WithTwoRings {
    RingPiece memory;
    RingPiece previous;
};
struct WithoutRings {
    int memory = 0;
};

constexpr auto kAll = [](const auto&) { return true; };

template <typename Object>
HandleTable<Object>& fill(HandleTable<Object>& table, std::size_t count, const Object& object) {
    for (std::size_t i = 0; i < count; ++i) {
        table.add(std::make_unique<Object>(object));
    }
    return table;
}

TEST(Batch, IsOfFewObjects) {
    HandleTable<WithoutRings> table;
    EXPECT_EQ(next_batch(fill(table, kObjectsPerStep * 2, {}), kAll).size(), kObjectsPerStep);
    EXPECT_EQ(next_batch(table, kAll, 4).size(), 4U);
}

// Clearing takes the control thread's time by the byte.
TEST(Batch, HasFewBytesOfRingsToClear) {
    HandleTable<WithRings> quarters;
    EXPECT_EQ(next_batch(fill(quarters, 64, {{0, kRingBytesPerStep / 4}}), kAll).size(), 4U);
    HandleTable<WithTwoRings> pairs;
    EXPECT_EQ(
        next_batch(fill(pairs, 64, {{0, kRingBytesPerStep / 4}, {0, kRingBytesPerStep / 4}}), kAll).size(),
        2U);
    HandleTable<WithRings> one;
    EXPECT_EQ(next_batch(fill(one, 64, {{0, kRingBytesPerStep}}), kAll).size(), 1U);
}

TEST(Batch, HasAllObjectsWhereNoneIsCleared) {
    HandleTable<WithRings> table;
    fill(table, 64, {{0, kRingBytesPerStep}});
    EXPECT_EQ(next_batch(table, kAll, kObjectsPerStep, ring_bytes_per_step(false)).size(), 1U);
    EXPECT_EQ(next_batch(table, kAll, kObjectsPerStep, ring_bytes_per_step(true)).size(), kObjectsPerStep);
}

TEST(Batch, LongRingsAreClearedElsewhere) {
    HandleTable<WithRings> table;
    EXPECT_EQ(next_batch(fill(table, 64, {{0, RingMemory::kClearHereBytes + 4096}}), kAll).size(), 64U);
}

}  // namespace
}  // namespace urnic::daemon
