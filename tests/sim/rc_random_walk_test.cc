#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/sim/random_walk.h"

namespace urnic::sim {
namespace {

// URNIC_TEST_SEED=N replays one walk.
TEST(RcRandomWalk, MemoryAndCompletionsAgreeWithTheOracle) {
    constexpr std::uint32_t kSteps = 4000;
    constexpr std::uint64_t kWalks = 100;
    const char* replay = std::getenv("URNIC_TEST_SEED");
    const std::uint64_t first = replay != nullptr ? std::strtoull(replay, nullptr, 0) : 1;
    const std::uint64_t count = replay != nullptr ? 1 : kWalks;
    std::uint64_t requests = 0;
    std::uint64_t retries = 0;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        RandomWalk walk(seed);
        const std::string failure = walk.run(kSteps);
        ASSERT_EQ(failure, "") << "replay with URNIC_TEST_SEED=" << seed;
        requests += walk.requests();
        retries += walk.retries();
    }
    if (replay == nullptr) {
        EXPECT_GT(requests, kWalks * 200);
        EXPECT_GT(retries, kWalks * 10);
    }
    RecordProperty("requests", static_cast<int>(requests));
    RecordProperty("retries", static_cast<int>(retries));
    std::printf("%lu requests, %lu retries\n", requests, retries);
}

}  // namespace
}  // namespace urnic::sim
