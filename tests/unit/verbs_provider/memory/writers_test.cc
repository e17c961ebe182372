// Threads that write to a large range at full speed while it is registered and deregistered: more than one
// step of it waits at a time.
#include <atomic>
#include <thread>
#include <vector>

#include "support.h"

namespace urnic::memory {
namespace {

constexpr std::size_t kLargeBytes = PageMover::kCrowdedBytes + 5 * PageMover::kStepBytes + 3 * kPageBytes;
constexpr std::size_t kLargePages = kLargeBytes / kPageBytes;
constexpr std::size_t kWriters = 3;

/// Each adds to a word of its own in every page. The words that do not hold what they must.
std::size_t lost_beside_writers(const Area& area, int rounds) {
    std::atomic<bool> stop{false};
    std::atomic<std::size_t> lost{0};
    const auto word = [&](std::size_t page, std::size_t writer) {
        return reinterpret_cast<volatile std::uint64_t*>(area.data() + page * kPageBytes) + writer * 64;
    };
    std::vector<std::thread> writers;
    for (std::size_t writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([&, writer] {
            std::uint64_t sum = 0;
            while (!stop) {
                ++sum;
                for (std::size_t page = 0; page < kLargePages; ++page) {
                    *word(page, writer) = *word(page, writer) + 1;
                }
            }
            for (std::size_t page = 0; page < kLargePages; ++page) {
                lost += *word(page, writer) == sum ? 0 : 1;
            }
        });
    }
    for (int i = 0; i < rounds; ++i) {
        const Registration registration = convert(area.address(), area.size(), true);
        EXPECT_TRUE(registration.converted);
        release(registration);
    }
    stop = true;
    for (std::thread& writer : writers) {
        writer.join();
    }
    return lost;
}

TEST(Writers, NothingIsLostWhereMuchWaitsAtOnce) {
    for (const RegistrySettings& settings :
         {RegistrySettings{.mover = {.always_crowded = true}},
          RegistrySettings{.mover = {.always_crowded = true}, .protects_untouched = false},
          RegistrySettings{}}) {
        apply_for_test(settings);
        const Area area(kLargeBytes);
        EXPECT_EQ(lost_beside_writers(area, 5), 0U);
    }
    apply_for_test(RegistrySettings{});
}

/// What waits ahead of the step that fails continues, too.
TEST(Writers, GoOnWhenTheMoveIsGivenUp) {
    apply_for_test({.mover = {.always_crowded = true}});
    const Area area(kLargeBytes);
    // Another userfaultfd in the middle refuses ours.
    Userfault other;
    ASSERT_TRUE(other.open(probe_userfault()));
    const std::uint64_t middle = area.address() + kLargeBytes / 2 / kPageBytes * kPageBytes;
    ASSERT_EQ(other.watch_writes({middle, middle + kPageBytes}), 0);
    const Registration registration = convert(area.address(), area.size(), true);
    EXPECT_FALSE(registration.converted);
    area.fill(3);
    EXPECT_TRUE(area.holds(3));
    release(registration);
    ASSERT_EQ(other.forget({middle, middle + kPageBytes}), 0);
    apply_for_test(RegistrySettings{});
}

}  // namespace
}  // namespace urnic::memory
