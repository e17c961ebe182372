#include "rnic/mem/key_table.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "abi/verbs_values.h"

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

// --- Windows ----------------------------------------------------------------------------------------------

constexpr KeyUser kUser{.pd = 1, .qp_num = 7};
constexpr std::uint32_t kBindable = kAccessLocalWrite | kAccessMwBind;

WindowBind bind_of(std::uint32_t key, std::uint32_t region_key, std::uint64_t addr, std::uint64_t length) {
    return {.new_key = key,
            .region_key = region_key,
            .addr = addr,
            .length_bytes = length,
            .access = kAccessRemoteWrite,
            .pd = kUser.pd,
            .qp_num = kUser.qp_num};
}

TEST(KeyTableWindows, BoundItLeadsIntoTheRegion) {
    KeyTable table;
    std::array<std::byte, 64> memory{};
    MemoryRegion region = region_at(0x7000, memory.size(), 1, kBindable);
    region.direct = memory.data();
    const std::uint32_t region_key = table.add(region, 3);
    MemoryWindow window(WindowType::kType2, 1);
    const std::uint32_t first = table.add_window(window, 0x00abcdef);
    EXPECT_EQ(table.size(), 2U);
    const std::uint32_t key = first ^ 1;  // only consumer bits differ
    MemoryPiece piece;
    EXPECT_EQ(table.resolve_remote(key, kUser, kAccessRemoteWrite, 0x7010, 8, piece), Verdict::kBadKey);
    ASSERT_TRUE(table.bind(bind_of(key, region_key, 0x7010, 16)));
    ASSERT_EQ(table.resolve_remote(key, kUser, kAccessRemoteWrite, 0x7018, 8, piece), Verdict::kOk);
    EXPECT_EQ(piece.direct, memory.data() + 0x18);
    EXPECT_EQ(piece.va, 0x7018U + 0x1000);
    EXPECT_EQ(piece.length_bytes, 8U);
    EXPECT_EQ(table.resolve_remote(key, kUser, kAccessRemoteWrite, 0x7018, 9, piece), Verdict::kBadRange);
    EXPECT_EQ(table.resolve_remote(key, kUser, kAccessRemoteRead, 0x7018, 8, piece), Verdict::kBadAccess);
    EXPECT_EQ(table.resolve_remote(key, {2, 7}, kAccessRemoteWrite, 0x7018, 8, piece), Verdict::kBadPd);
    EXPECT_EQ(table.resolve_remote(key, {1, 8}, kAccessRemoteWrite, 0x7018, 8, piece), Verdict::kBadPd);
    EXPECT_EQ(table.resolve_remote(first, kUser, kAccessRemoteWrite, 0x7018, 8, piece), Verdict::kBadKey);
    EXPECT_EQ(table.resolve(key, 1, 0, 0x7018, 8, piece), Verdict::kBadKey);
    EXPECT_EQ(table.find(key), nullptr);
}

TEST(KeyTableWindows, AKeyIsNeverZeroWhateverTheConsumerPutsIn) {
    KeyTable table;
    const std::uint32_t region_key = table.add(region_at(0, 64, 1, kBindable), 1U << 20U);
    MemoryWindow window(WindowType::kType2, 1);
    const std::uint32_t first = table.add_window(window, 0x11);
    EXPECT_NE(first & ~0xffU, 0U);
    ASSERT_TRUE(table.bind(bind_of(first & ~0xffU, region_key, 0, 8)));
    MemoryPiece piece;
    EXPECT_EQ(table.resolve_remote(0, kUser, 0, 0, 8, piece), Verdict::kBadKey);
    EXPECT_EQ(table.resolve_remote(first & ~0xffU, kUser, 0, 0, 8, piece), Verdict::kOk);
}

TEST(KeyTableWindows, ARegionWithWindowsStaysOpenAndAClosedOneTakesNone) {
    KeyTable table;
    const std::uint32_t region_key = table.add(region_at(0, 64, 1, kBindable), 1U << 20U);
    MemoryWindow one(WindowType::kType2, 1);
    MemoryWindow two(WindowType::kType1, 1);
    const std::uint32_t first = table.add_window(one, 2U << 20U);
    const std::uint32_t second = table.add_window(two, 3U << 20U);
    ASSERT_TRUE(table.bind(bind_of(first, region_key, 0, 8)));
    ASSERT_TRUE(table.bind(bind_of(second, region_key, 0, 8)));
    ASSERT_TRUE(table.bind(bind_of(second + 1, region_key, 8, 8)));
    EXPECT_FALSE(table.close(region_key));
    EXPECT_FALSE(table.invalidate(second + 1, kUser)) << "type 1";
    EXPECT_FALSE(table.invalidate(first, {1, 8}));
    EXPECT_FALSE(table.invalidate(first, {2, 7}));
    EXPECT_TRUE(table.invalidate(first, kUser));
    EXPECT_FALSE(table.invalidate(first, kUser));
    EXPECT_FALSE(table.close(region_key));
    // The control thread ends a window that is bound.
    table.remove_window(two);
    MemoryPiece piece;
    EXPECT_EQ(table.resolve_remote(second + 1, kUser, 0, 8, 8, piece), Verdict::kBadKey);
    EXPECT_FALSE(table.bind(bind_of(second + 2, region_key, 0, 8)));
    table.unbind(two);
    table.release(second);
    EXPECT_TRUE(table.close(region_key));
    EXPECT_FALSE(table.bind(bind_of(first, region_key, 0, 8)));
    ASSERT_TRUE(table.remove(region_key));
    table.replace(region_key, region_at(0, 64, 1, kBindable));
    EXPECT_TRUE(table.bind(bind_of(first, region_key, 0, 8)));
}

TEST(KeyTableWindows, ARegionThatHasToGoTakesItsWindowsAway) {
    KeyTable table;
    const std::uint32_t doomed = table.add(region_at(0, 64, 1, kBindable), 1U << 20U);
    const std::uint32_t other = table.add(region_at(0, 64, 1, kBindable), 9U << 20U);
    MemoryWindow one(WindowType::kType2, 1);
    MemoryWindow two(WindowType::kType2, 1);
    const std::uint32_t first = table.add_window(one, 2U << 20U);
    const std::uint32_t second = table.add_window(two, 3U << 20U);
    ASSERT_TRUE(table.bind(bind_of(first, doomed, 0, 8)));
    ASSERT_TRUE(table.bind(bind_of(second, other, 0, 8)));
    table.force_close(doomed);
    ASSERT_TRUE(table.remove(doomed));
    table.unbind_closed();
    table.release(doomed);
    MemoryPiece piece;
    EXPECT_EQ(table.resolve_remote(first, kUser, 0, 0, 8, piece), Verdict::kBadKey);
    EXPECT_EQ(table.resolve_remote(second, kUser, 0, 0, 8, piece), Verdict::kOk);
    EXPECT_TRUE(table.bind(bind_of(first, other, 0, 8)));
}

// Workers bind, invalidate and rebind a window of each type, among them some that lie, while others look at
// them: a reader sees a piece of one bind, or nothing (meaningful under TSan too).
TEST(KeyTableWindows, ReadersSeeOneBindOrNone) {
    constexpr int kRounds = 20'000;
    KeyTable table;
    std::array<std::uint32_t, 2> regions{};
    for (std::size_t i = 0; i < regions.size(); ++i) {
        // What is read tells the region: the address space follows from it.
        regions[i] = table.add(region_at((i + 1) << 32U, 1U << 30U, 1, kBindable),
                               static_cast<std::uint32_t>(i + 5) << 20U);
    }
    MemoryWindow type_2(WindowType::kType2, 1);
    MemoryWindow type_1(WindowType::kType1, 1);
    const std::uint32_t key_2 = table.add_window(type_2, 20U << 20U);
    const std::uint32_t key_1 = table.add_window(type_1, 21U << 20U);
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> torn{0};
    std::atomic<std::uint64_t> bound{0};
    const auto changer = [&](std::uint32_t seed) {
        std::mt19937 random(seed);
        for (int i = 0; i < kRounds; ++i) {
            const std::uint32_t which = random() % 2;
            // The window's length tells its place, its consumer bits both.
            const std::uint32_t place = random() % 64;
            WindowBind request = bind_of(((i % 2 == 0) ? key_2 : key_1) + place, regions[which],
                                         (std::uint64_t{which + 1} << 32U) + 4096 * place, 4096 + place);
            bound += table.bind(request) ? 1 : 0;
            if (random() % 2 == 0) {
                (void)table.invalidate(key_2 + place, kUser);
            }
        }
    };
    const auto reader = [&] {
        std::mt19937 random(99);
        while (!done.load()) {
            const std::uint32_t place = random() % 64;
            const std::uint64_t which = random() % 2;
            const std::uint64_t addr = ((which + 1) << 32U) + 4096 * place;
            MemoryPiece piece;
            const std::uint32_t key = (random() % 2 == 0 ? key_2 : key_1) + place;
            if (table.resolve_remote(key, kUser, kAccessRemoteWrite, addr, 4096 + place, piece) ==
                Verdict::kOk) {
                torn += piece.va != addr + 0x1000 ? 1 : 0;
            }
        }
    };
    std::vector<std::thread> readers;
    std::vector<std::thread> changers;
    for (std::uint32_t i = 0; i < 2; ++i) {
        readers.emplace_back(reader);
        changers.emplace_back(changer, i);
    }
    for (std::thread& thread : changers) {
        thread.join();
    }
    done = true;
    for (std::thread& thread : readers) {
        thread.join();
    }
    EXPECT_EQ(torn.load(), 0U);
    EXPECT_GT(bound.load(), 0U);
    // Every bind was counted, and counted out: with both windows gone, both regions are free.
    for (MemoryWindow* window : {&type_2, &type_1}) {
        table.remove_window(*window);
        table.unbind(*window);
    }
    EXPECT_TRUE(table.close(regions[0]));
    EXPECT_TRUE(table.close(regions[1]));
}

}  // namespace
}  // namespace urnic
