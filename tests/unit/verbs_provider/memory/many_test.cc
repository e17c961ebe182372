// Numbers: many registrations, many threads, and programs that rearrange registered memory.
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace urnic::memory {
namespace {

constexpr Range kEverything{0, 1ULL << 47U};

TEST(ManyRegistrations, OfOneBuffer) {
    const Area area(16 * kPageBytes);
    area.fill(4);
    std::vector<Registration> all;
    for (std::uint64_t i = 0; i < 65536; ++i) {
        all.push_back(convert(area.address() + i % (15 * kPageBytes), kPageBytes, true));
        ASSERT_TRUE(all.back().converted);
    }
    EXPECT_EQ(stretches_for_test(), 1U);
    for (const Registration& registration : all) {
        release(registration);
    }
    EXPECT_EQ(stretches_for_test(), 0U);
    EXPECT_TRUE(area.holds(4));
    EXPECT_EQ(mappings_in(area.range()).size(), 1U);
}

TEST(ManyRegistrations, OfAdjacentPages) {
    constexpr std::uint64_t kCount = 4096;
    const Area area(kCount * kPageBytes);
    area.fill(6);
    std::vector<Registration> all;
    for (std::uint64_t i = 0; i < kCount; ++i) {
        all.push_back(convert(area.address() + i * kPageBytes, kPageBytes, true));
        ASSERT_TRUE(all.back().converted);
    }
    EXPECT_EQ(mappings_in(area.range()).size(), 1U);
    std::shuffle(all.begin(), all.end(), std::mt19937(7));
    for (const Registration& registration : all) {
        release(registration);
    }
    EXPECT_TRUE(area.holds(6));
    EXPECT_EQ(mappings_in(area.range()).size(), 1U);
    EXPECT_EQ(memory_file_bytes(), 0U);
}

TEST(ManyRegistrations, FarApartLeaveTheApplicationItsMappings) {
    constexpr std::uint64_t kLimit = 64;
    apply_for_test({.max_stretches = kLimit});
    const Area area(4 * kLimit * kPageBytes);
    area.fill(8);
    std::vector<Registration> all;
    std::uint64_t converted = 0;
    const std::size_t before = mappings_in(kEverything).size();
    for (std::uint64_t i = 0; i < 2 * kLimit; ++i) {
        all.push_back(convert(area.address() + 2 * i * kPageBytes, 100, true));
        ASSERT_EQ(all.back().error, 0);
        converted += static_cast<std::uint64_t>(all.back().converted);
    }
    EXPECT_EQ(converted, kLimit) << "beyond the limit memory is copied";
    EXPECT_LE(mappings_in(kEverything).size(), before + 4 * kLimit + 4);
    for (const Registration& registration : all) {
        release(registration);
    }
    EXPECT_TRUE(area.holds(8));
    EXPECT_LE(mappings_in(kEverything).size(), before + 4);
    apply_for_test(RegistrySettings{});
}

TEST(Concurrency, ThreadsRegisterWhatTheyLike) {
    constexpr std::size_t kPages = 64;
    constexpr int kThreads = 4;
    const Area area(kPages * kPageBytes);
    area.fill(5);
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    std::atomic<int> failures{0};
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(static_cast<unsigned>(t));
            std::vector<Registration> mine;
            for (int step = 0; step < 400; ++step) {
                if (mine.size() > 8 || (!mine.empty() && random() % 2 == 0)) {
                    release(mine.back());
                    mine.pop_back();
                    continue;
                }
                const std::size_t first = random() % kPages;
                const std::size_t pages = 1 + random() % (kPages - first);
                mine.push_back(convert(area.address() + first * kPageBytes, pages * kPageBytes, true));
                failures += static_cast<int>(!mine.back().converted);
                std::string on_heap(200, 'x');  // malloc continues meanwhile
                failures += static_cast<int>(on_heap[199] != 'x');
            }
            for (const Registration& registration : mine) {
                release(registration);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(failures, 0);
    EXPECT_EQ(stretches_for_test(), 0U);
    EXPECT_TRUE(area.holds(5));
    EXPECT_EQ(memory_file_bytes(), 0U);
}

TEST(Rearranged, UnmappedWhileRegistered) {
    char* at = static_cast<char*>(
        ::mmap(nullptr, 4 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(at, 'u', 4 * kPageBytes);
    const Registration registration = convert(address_of(at), 4 * kPageBytes, true);
    ASSERT_TRUE(registration.converted);
    ::munmap(at, 4 * kPageBytes);
    release(registration);
    EXPECT_EQ(memory_file_bytes(), 0U);
}

TEST(Rearranged, NewMemoryInThePlaceOfRegisteredMemory) {
    const Area area(4 * kPageBytes);
    area.fill(1);
    const Registration stale = convert(area.address(), area.size(), true);
    ASSERT_TRUE(stale.converted);
    ASSERT_EQ(::mmap(area.data(), area.size(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              area.data());
    area[0] = 'n';
    const Registration fresh = convert(area.address(), area.size(), true);
    ASSERT_TRUE(fresh.converted);
    const DaemonView view(area.address(), area.size());
    EXPECT_EQ(area[0], 'n');
    EXPECT_EQ(area[1], 0) << "the old content must not come back";
    EXPECT_EQ(view[0], 'n');
    EXPECT_EQ(view[1], 0);
    view[2] = 'o';
    EXPECT_EQ(area[2], 'o');
    release(stale);
    EXPECT_EQ(area[2], 'o');
    view[3] = 'p';
    EXPECT_EQ(area[3], 'p') << "the second registration still counts";
    release(fresh);
    EXPECT_EQ(area[3], 'p');
    EXPECT_EQ(memory_file_bytes(), 0U);
}

TEST(Rearranged, NewMemoryAfterReleaseInTheWrongOrder) {
    // A copied registration keeps a page converted; then the page is unmapped, and only then released.
    const Area area(4 * kPageBytes);
    ASSERT_NE(::mmap(area.data() + 3 * kPageBytes, kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              MAP_FAILED);
    area.fill(1);
    const Registration converted = convert(area.address(), 2 * kPageBytes, true);
    const Registration copied = convert(area.address(), area.size(), true);
    ASSERT_TRUE(converted.converted && !copied.converted && copied.error == 0);
    release(converted);
    ASSERT_EQ(::mmap(area.data(), area.size(), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              area.data());
    release(copied);
    EXPECT_EQ(memory_file_bytes(), 0U);
    const Registration fresh = convert(area.address(), area.size(), true);
    ASSERT_TRUE(fresh.converted);
    EXPECT_EQ(area[100], 0);
    release(fresh);
}

TEST(Rearranged, MovedElsewhereAsReallocDoes) {
    const Area area(4 * kPageBytes);
    const Area target(4 * kPageBytes);
    area.fill(2);
    const Registration registration = convert(area.address(), area.size(), true);
    ASSERT_TRUE(registration.converted);
    ASSERT_EQ(::mremap(area.data(), area.size(), area.size(), MREMAP_MAYMOVE | MREMAP_FIXED, target.data()),
              target.data());
    EXPECT_TRUE(target.holds(2));
    release(registration);
    EXPECT_TRUE(target.holds(2)) << "the content lives on at its new address";
    EXPECT_FALSE(mappings_in(target.range())[0].shared);
    EXPECT_EQ(memory_file_bytes(), 0U);
    // And the new address registers like any other memory.
    const Registration again = convert(target.address(), target.size(), true);
    EXPECT_TRUE(again.converted);
    EXPECT_TRUE(target.holds(2));
    release(again);
    EXPECT_TRUE(target.holds(2));
}

TEST(Rearranged, GrownInPlace) {
    char* at = static_cast<char*>(
        ::mmap(nullptr, 8 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::munmap(at + 4 * kPageBytes, 4 * kPageBytes);
    at[0] = 'g';
    const Registration registration = convert(address_of(at), 4 * kPageBytes, true);
    ASSERT_TRUE(registration.converted);
    void* const grown = ::mremap(at, 4 * kPageBytes, 8 * kPageBytes, 0);
#if defined(__SANITIZE_THREAD__)
    if (grown == MAP_FAILED) {
        GTEST_SKIP() << "the sanitizer's runtime has mapped what was just unmapped";
    }
#endif
    ASSERT_EQ(grown, at);
    at[7 * kPageBytes] = 'r';
    release(registration);
    EXPECT_EQ(at[0], 'g');
    EXPECT_EQ(at[7 * kPageBytes], 'r');
    for (const VmArea& mapping : mappings_in({address_of(at), address_of(at) + 8 * kPageBytes})) {
        EXPECT_FALSE(mapping.shared);
    }
    EXPECT_EQ(memory_file_bytes(), 0U);
    ::munmap(at, 8 * kPageBytes);
}

TEST(Rearranged, ProtectionChangedWhileRegisteredStays) {
    const Area area(2 * kPageBytes);
    area.fill(3);
    const Registration registration = convert(area.address(), area.size(), true);
    ASSERT_TRUE(registration.converted);
    ASSERT_EQ(::mprotect(area.data(), kPageBytes, PROT_READ), 0);
    release(registration);
    EXPECT_TRUE(area.holds(3));
    const Mappings mappings = mappings_in(area.range());
    ASSERT_EQ(mappings.size(), 2U);
    EXPECT_EQ(mappings[0].protection, PROT_READ);
    EXPECT_EQ(mappings[1].protection, PROT_READ | PROT_WRITE);
}

}  // namespace
}  // namespace urnic::memory
