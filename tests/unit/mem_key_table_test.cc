#include "rnic/mem/key_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "rnic/abi/verbs_values.h"

namespace urnic {
namespace {

using Verdict = KeyTable::Verdict;

MemoryRegion region_at(std::uint64_t iova, std::uint64_t length_bytes, std::uint32_t pd = 1,
                       std::uint32_t access = kAccessLocalWrite | kAccessRemoteRead) {
    MemoryRegion region;
    region.iova = iova;
    region.length_bytes = length_bytes;
    region.va = iova + 0x1000;
    region.pd = pd;
    region.access = access;
    return region;
}

TEST(KeyTable, GivesBackWhatWasAdded) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0x10000, 4096), 0x12345678);
    EXPECT_EQ(key, 0x12345678U);
    const MemoryRegion* region = table.find(key);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(region->iova, 0x10000U);
    EXPECT_EQ(region->length_bytes, 4096U);
    EXPECT_EQ(table.size(), 1U);
}

TEST(KeyTable, OneWrongBitIsAnotherKey) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0, 4096), 0x9abcdef0);
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
        EXPECT_EQ(table.find(key ^ (1U << bit)), nullptr) << "bit " << bit;
    }
    EXPECT_EQ(table.find(0), nullptr);
}

TEST(KeyTable, AKeyIsNeverZero) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0, 1), 0);
    EXPECT_NE(key, 0U);
    EXPECT_NE(table.find(key), nullptr);
    EXPECT_EQ(table.find(0), nullptr);
    EXPECT_TRUE(table.remove(key));
    table.release(key);
}

TEST(KeyTable, EqualRandomNumbersGiveDifferentKeys) {
    KeyTable table;
    std::set<std::uint32_t> keys;
    for (std::uint64_t i = 0; i < 100; ++i) {
        const std::uint32_t key = table.add(region_at(i, 1), 0x0403ffff);
        EXPECT_TRUE(keys.insert(key).second);
        EXPECT_EQ(table.find(key)->iova, i);
    }
}

TEST(KeyTable, ARemovedKeyIsGoneAndItsSlotStaysReservedUntilReleased) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0x4000, 64), 77);
    EXPECT_TRUE(table.remove(key));
    EXPECT_EQ(table.find(key), nullptr);
    EXPECT_FALSE(table.remove(key));
    // A reader may still look at the old region: the slot is not given away.
    const std::uint32_t next = table.add(region_at(0x8000, 64), 77);
    EXPECT_NE(next, key);
    EXPECT_EQ(table.size(), 2U);
    table.release(key);
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.add(region_at(0xc000, 64), 77), key);
}

TEST(KeyTable, RemoveOfAForeignKeyChangesNothing) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0, 64), 5);
    EXPECT_FALSE(table.remove(0));
    EXPECT_FALSE(table.remove(key ^ 0x80000000U));
    EXPECT_NE(table.find(key), nullptr);
}

TEST(KeyTableDeathTest, ReleaseOfAPublishedKeyIsABug) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0, 64), 5);
    EXPECT_DEATH(table.release(key), "internal error");
}

TEST(KeyTable, FullAtItsLimitAndUsableAgainAfterwards) {
    KeyTable table;
    std::mt19937 random(1);
    std::vector<std::uint32_t> keys;
    for (std::uint32_t i = 0; i < KeyTable::kMaxKeys; ++i) {
        keys.push_back(table.add(region_at(i, 1), random()));
        ASSERT_NE(keys.back(), 0U);
    }
    EXPECT_EQ(table.add(region_at(0, 1), random()), 0U);
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(table.find(keys[i])->iova, i);
    }
    ASSERT_TRUE(table.remove(keys[7]));
    table.release(keys[7]);
    EXPECT_NE(table.add(region_at(0, 1), random()), 0U);
}

struct ResolveCase {
    const char* what;
    std::uint32_t pd;
    std::uint32_t access;
    std::uint64_t addr;
    std::uint32_t length_bytes;
    Verdict verdict;
};

class KeyTableResolve : public testing::TestWithParam<ResolveCase> {};

TEST_P(KeyTableResolve, Checks) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(0x10000, 0x1000), 99);
    const ResolveCase& c = GetParam();
    MemoryPiece piece;
    EXPECT_EQ(table.resolve(key, c.pd, c.access, c.addr, c.length_bytes, piece), c.verdict);
    if (c.verdict == Verdict::kOk) {
        EXPECT_EQ(piece.va, c.addr + 0x1000);
        EXPECT_EQ(piece.length_bytes, c.length_bytes);
        EXPECT_EQ(piece.direct, nullptr);
    }
    EXPECT_EQ(table.resolve(key + 1, c.pd, c.access, c.addr, c.length_bytes, piece), Verdict::kBadKey);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, KeyTableResolve,
    testing::Values(ResolveCase{"all", 1, kAccessLocalWrite, 0x10000, 0x1000, Verdict::kOk},
                    ResolveCase{"read_needs_nothing", 1, 0, 0x10000, 1, Verdict::kOk},
                    ResolveCase{"last_byte", 1, 0, 0x10fff, 1, Verdict::kOk},
                    ResolveCase{"empty_at_the_end", 1, 0, 0x11000, 0, Verdict::kOk},
                    ResolveCase{"one_too_far", 1, 0, 0x10fff, 2, Verdict::kBadRange},
                    ResolveCase{"behind", 1, 0, 0x11001, 0, Verdict::kBadRange},
                    ResolveCase{"before", 1, 0, 0xffff, 1, Verdict::kBadRange},
                    ResolveCase{"wraps", 1, 0, ~0ULL, 0x10002, Verdict::kBadRange},
                    ResolveCase{"longest", 1, 0, 0x10000, 0xffffffff, Verdict::kBadRange},
                    ResolveCase{"other_pd", 2, 0, 0x10000, 1, Verdict::kBadPd},
                    ResolveCase{"no_right", 1, kAccessRemoteWrite, 0x10000, 1, Verdict::kBadAccess},
                    ResolveCase{"half_a_right", 1, kAccessRemoteRead | kAccessRemoteWrite, 0x10000, 1,
                                Verdict::kBadAccess}),
    [](const auto& info) { return info.param.what; });

TEST(KeyTable, AMappedRegionGivesADirectPiece) {
    KeyTable table;
    std::array<std::byte, 64> memory{};
    MemoryRegion region = region_at(0x7000, memory.size());
    region.direct = memory.data();
    const std::uint32_t key = table.add(region, 3);
    MemoryPiece piece;
    ASSERT_EQ(table.resolve(key, 1, kAccessLocalWrite, 0x7010, 16, piece), Verdict::kOk);
    EXPECT_EQ(piece.direct, memory.data() + 16);
}

TEST(KeyTable, ARegionAtTheEndOfTheAddressSpaceDoesNotWrap) {
    KeyTable table;
    const std::uint32_t key = table.add(region_at(~0ULL - 0xfff, 0x1000), 3);
    MemoryPiece piece;
    EXPECT_EQ(table.resolve(key, 1, 0, ~0ULL, 1, piece), Verdict::kOk);
    EXPECT_EQ(table.resolve(key, 1, 0, ~0ULL, 2, piece), Verdict::kBadRange);
    EXPECT_EQ(table.resolve(key, 1, 0, 0, 1, piece), Verdict::kBadRange);
}

// Readers run while the writer publishes and unpublishes: a reader sees a whole region or none (meaningful
// under TSan too).
TEST(KeyTable, AReaderSeesWholeRegionsOnly) {
    KeyTable table;
    std::atomic<bool> done{false};
    std::atomic<std::uint32_t> current{0};
    std::atomic<std::uint64_t> rounds_seen{0};
    std::atomic<std::uint64_t> torn{0};
    std::thread reader([&] {
        while (!done.load(std::memory_order_acquire)) {
            if (const MemoryRegion* region = table.find(current.load(std::memory_order_acquire))) {
                torn += region->va != region->iova + 0x1000 ? 1 : 0;
            }
            ++rounds_seen;
        }
    });
    std::mt19937 random(7);
    for (std::uint64_t i = 0; i < 300; ++i) {
        const std::uint32_t key = table.add(region_at(i << 20U, 64), random());
        current.store(key, std::memory_order_release);
        ASSERT_TRUE(table.remove(key));
        current.store(0, std::memory_order_release);
        // The barrier that the contract asks for: the reader has passed a loop boundary twice.
        for (const std::uint64_t seen = rounds_seen.load(); rounds_seen.load() < seen + 2;) {
            std::this_thread::yield();
        }
        table.release(key);
    }
    done.store(true, std::memory_order_release);
    reader.join();
    EXPECT_EQ(torn.load(), 0U);
}

}  // namespace
}  // namespace urnic
