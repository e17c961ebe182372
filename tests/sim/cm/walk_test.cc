// Random walks of two managers. A failing seed is printed; URNIC_SEED=N runs it alone, URNIC_CM_WALKS=N as
// many seeds as that.
#include "tests/sim/cm/walk.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace urnic::sim::cm {
namespace {

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(CmWalk, AgreesWithTheOracle) {
    const std::uint64_t alone = number_of("URNIC_SEED", 0);
    const std::uint64_t walks = number_of("URNIC_CM_WALKS", 1000);
    Walk::Seen all;
    const std::uint64_t first = alone == 0 ? 1 : alone;
    for (std::uint64_t seed = first; seed < first + (alone == 0 ? walks : 1); ++seed) {
        Walk walk(seed);
        const std::string wrong = walk.run();
        ASSERT_EQ(wrong, "") << "seed " << seed << ": URNIC_SEED=" << seed << " runs it again";
        all.established += walk.seen().established;
        all.disconnected += walk.seen().disconnected;
        all.rejected += walk.seen().rejected;
        all.unreachable += walk.seen().unreachable;
        all.resolved += walk.seen().resolved;
        all.stale += walk.seen().stale;
        all.duplicates += walk.seen().duplicates;
        all.retries += walk.seen().retries;
    }
    std::printf(
        "up at the end %llu, disconnected %llu, rejected %llu, unreachable %llu, resolved %llu, stale %llu, "
        "duplicates %llu, retries %llu\n",
        static_cast<unsigned long long>(all.established), static_cast<unsigned long long>(all.disconnected),
        static_cast<unsigned long long>(all.rejected), static_cast<unsigned long long>(all.unreachable),
        static_cast<unsigned long long>(all.resolved), static_cast<unsigned long long>(all.stale),
        static_cast<unsigned long long>(all.duplicates), static_cast<unsigned long long>(all.retries));
    if (alone == 0) {
        EXPECT_GT(all.established, walks);
        EXPECT_GT(all.disconnected, walks);
        EXPECT_GT(all.rejected, walks);
        EXPECT_GT(all.resolved, walks);
        EXPECT_GT(all.unreachable, walks);
        EXPECT_GT(all.stale, walks);
        EXPECT_GT(all.duplicates, walks);
        EXPECT_GT(all.retries, walks);
    }
}

}  // namespace
}  // namespace urnic::sim::cm
