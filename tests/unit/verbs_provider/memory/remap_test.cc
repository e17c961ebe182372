// mremap() of registered memory, and what glibc's malloc does with it.
#include <malloc.h>
#include <sys/mman.h>

#include <vector>

#include "calls.h"

namespace urnic::memory {
namespace {

class RemapTest : public CallsTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, RemapTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "AsDebian12" : "ThisOne"; });

TEST_P(RemapTest, GrowingDoesNotShowWhatLiesBehind) {
    Area area(16 * kPageBytes);
    area.fill(1);
    const Registered low(area.data(), 8 * kPageBytes), high(area.data() + 8 * kPageBytes, 8 * kPageBytes);
    char* grown = move_memory(area.data(), 8 * kPageBytes, 12 * kPageBytes, MREMAP_MAYMOVE);
    ASSERT_NE(grown, MAP_FAILED);
    area.note_moved(8 * kPageBytes);
    const Pattern pattern;
    EXPECT_EQ(std::memcmp(grown, pattern.page(1, 0), kPageBytes), 0);
    EXPECT_EQ(std::memcmp(grown + 7 * kPageBytes, pattern.page(1, 7), kPageBytes), 0);
    EXPECT_TRUE(is_zero(grown + 8 * kPageBytes, 4 * kPageBytes));
    std::memset(grown, 'g', 12 * kPageBytes);
    EXPECT_EQ(std::memcmp(area.data() + 8 * kPageBytes, pattern.page(1, 8), kPageBytes), 0)
        << "the neighbour was overwritten";
    // As with a NIC the region continues with the pages that were registered.
    const DaemonView view(area.address(), kPageBytes);
    view[3] = 'd';
    EXPECT_EQ(grown[3], 'd');
    // And again, though it is two mappings now.
    char* larger = move_memory(grown, 12 * kPageBytes, 64 * kPageBytes, MREMAP_MAYMOVE);
    ASSERT_NE(larger, MAP_FAILED);
    EXPECT_EQ(larger[3], 'd');
    EXPECT_EQ(larger[11 * kPageBytes], 'g');
    EXPECT_TRUE(is_zero(larger + 12 * kPageBytes, kPageBytes));
    // The moved pages are discarded where they are now.
    ASSERT_EQ(give_advice(larger, 2 * kPageBytes, MADV_DONTNEED), 0);
    EXPECT_TRUE(is_zero(larger, 2 * kPageBytes));
    ::munmap(larger, 64 * kPageBytes);
}

TEST_P(RemapTest, GrowingInPlace) {
    const LowArea area(0);
    area.fill(1);
    const Registered gone(area.data() + 4 * kPageBytes, 4 * kPageBytes);
    const Registered low(area.data(), 4 * kPageBytes);
    ASSERT_EQ(::munmap(area.data() + 4 * kPageBytes, 4 * kPageBytes), 0);
    void* const grown = move_memory(area.data(), 4 * kPageBytes, 8 * kPageBytes, 0);
#if defined(__SANITIZE_THREAD__)
    if (grown == MAP_FAILED) {
        GTEST_SKIP() << "the sanitizer's runtime has mapped what was just unmapped";
    }
#endif
    ASSERT_EQ(grown, area.data());
    EXPECT_TRUE(is_zero(area.data() + 4 * kPageBytes, 4 * kPageBytes));
    EXPECT_EQ(move_memory(area.data(), 8 * kPageBytes, 10 * kPageBytes, 0), MAP_FAILED);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(move_memory(area.data(), 8 * kPageBytes, 3 * kPageBytes, 0), area.data());
    EXPECT_TRUE(mappings_in({area.address() + 3 * kPageBytes, area.address() + 8 * kPageBytes}).empty());
}

TEST_P(RemapTest, PartlyRegisteredMemoryMovesAsAWhole) {
    Area area(8 * kPageBytes);
    const Area target(12 * kPageBytes);
    area.fill(1);
    Registered part(area.data() + 2 * kPageBytes, 3 * kPageBytes);
    ASSERT_EQ(move_memory(area.data(), 8 * kPageBytes, 8 * kPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                          target.data()),
              target.data());
    area.note_moved(8 * kPageBytes);
    const Pattern pattern;
    for (std::size_t page = 0; page < 8; ++page) {
        EXPECT_EQ(std::memcmp(target.data() + page * kPageBytes, pattern.page(1, page), kPageBytes), 0);
    }
    EXPECT_TRUE(mappings_in(area.range()).empty());
    part.end();
    for (const VmArea& mapping : mappings_in({target.address(), target.address() + 8 * kPageBytes})) {
        EXPECT_FALSE(mapping.shared);
    }
}

TEST_P(RemapTest, PagesThatLeaveTheirMappingBehindLeaveZeros) {
    const Area area(4 * kPageBytes), target(4 * kPageBytes);
    area.fill(1);
    const Registered registration(area.data(), area.size());
    ASSERT_EQ(move_memory(area.data(), area.size(), area.size(),
                          MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, target.data()),
              target.data());
    EXPECT_TRUE(target.holds(1));
    EXPECT_TRUE(is_zero(area.data(), area.size()));
}

TEST_P(RemapTest, RefusedMovesAreRefused) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    const Registered registration(area.data(), area.size());
    const auto error = [&](std::size_t old_bytes, std::size_t new_bytes, int flags, void* to = nullptr) {
        errno = 0;
        return move_memory(area.data(), old_bytes, new_bytes, flags, to) == MAP_FAILED ? errno : 0;
    };
    EXPECT_EQ(error(0, area.size(), MREMAP_MAYMOVE), EINVAL) << "would be a second mapping of the pages";
    EXPECT_EQ(error(area.size(), 0, MREMAP_MAYMOVE), EINVAL);
    EXPECT_EQ(error(area.size(), area.size(), MREMAP_FIXED, area.data()), EINVAL);
    EXPECT_EQ(error(area.size(), area.size(), 64), EINVAL);
    EXPECT_EQ(error(area.size() + kPageBytes, area.size() + kPageBytes, MREMAP_MAYMOVE, nullptr), 0)
        << "the page behind is inaccessible, but there";
}

// Of glibc's allocator; a sanitizer brings one of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// In a child, where nothing is left of other tests.
bool finds_blocks_of_their_own() {
    constexpr std::size_t kBytes = 1UL << 20U;
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    std::vector<char*> blocks{static_cast<char*>(std::malloc(kBytes)),
                              static_cast<char*>(std::aligned_alloc(64, kBytes)),
                              static_cast<char*>(std::malloc(100)), static_cast<char*>(std::malloc(kBytes))};
    for (char* block : blocks) {
        std::memset(block, 1, 100);
        EXPECT_FALSE(is_mapped_block(block));
    }
    {
        // As caches do: whole pages.
        const std::uint64_t start = page_floor(address_of(blocks[0]));
        const Registered whole(reinterpret_cast<void*>(start), kBytes);  // NOLINT(performance-no-int-to-ptr)
        const Registered inner(blocks[1] + kBytes / 2, 100), little(blocks[2], 100);
        EXPECT_TRUE(is_mapped_block(blocks[0]));
        EXPECT_TRUE(is_mapped_block(blocks[1]));
        EXPECT_FALSE(is_mapped_block(blocks[2]));
        EXPECT_FALSE(is_mapped_block(blocks[3]));
    }
    for (char* block : blocks) {
        EXPECT_FALSE(is_mapped_block(block));
        std::free(block);
    }
    // Of another allocator, at the beginning of its mapping.
    const Area area(2 * kPageBytes);
    const Registered registration(area.data(), area.size());
    EXPECT_FALSE(is_mapped_block(area.data()));
    return !testing::Test::HasFailure();
}

/// What the preloaded library must not let glibc's realloc() remap unseen.
TEST_P(RemapTest, BlocksThatReallocWouldRemap) { EXPECT_TRUE(in_child(finds_blocks_of_their_own)); }
#endif

TEST_P(RemapTest, MemoryThatGrowsDownGoesOnGrowing) {
    constexpr std::size_t kBytes = 64 * kPageBytes;
    char* low =
        static_cast<char*>(::mmap(nullptr, 4 * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char* at = static_cast<char*>(::mmap(low + 3 * kBytes, kBytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0));
    ASSERT_NE(at, MAP_FAILED);
    // Room to grow in which no other mapping fits. What is inaccessible below keeps others from coming so
    // near that the kernel would not let it grow.
    ASSERT_EQ(::munmap(at - 2 * kPageBytes, 2 * kPageBytes), 0);
    std::memset(at, 1, kBytes);
    const Registration registration = convert(address_of(at), 4 * kPageBytes, true);
    EXPECT_EQ(registration.error, 0);
    EXPECT_TRUE(in_child([&] {
        *(at - kPageBytes) = 'x';
        return true;
    }));
    release(registration);
    ::munmap(low, 4 * kBytes);
}

}  // namespace
}  // namespace urnic::memory
