#include "rnic/qp/rc/atomic_ops.h"
#include "rnic/qp/rc/atomic_replay_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/single_step.h"

namespace urnic {
namespace {

TEST(Atomics, CompareAndSwap) {
    alignas(8) std::uint64_t value = 5;
    const MemoryPiece piece{.direct = reinterpret_cast<std::byte*>(&value), .length_bytes = 8};
    EXPECT_EQ(execute_atomic(piece, {true, 9, 4}), 5U);
    EXPECT_EQ(value, 5U);
    EXPECT_EQ(execute_atomic(piece, {true, 9, 5}), 5U);
    EXPECT_EQ(value, 9U);
}

TEST(Atomics, FetchAndAddWraps) {
    alignas(8) std::uint64_t value = ~0ULL;
    const MemoryPiece piece{.direct = reinterpret_cast<std::byte*>(&value), .length_bytes = 8};
    EXPECT_EQ(execute_atomic(piece, {false, 3, 0}), ~0ULL);
    EXPECT_EQ(value, 2U);
}

// The application's own atomics on the same word lose nothing (IBV_ATOMIC_GLOB).
TEST(Atomics, AgainstTheApplicationsOwn) {
    constexpr int kTimes = 200'000;
    alignas(8) std::uint64_t value = 0;
    std::thread application([&value] {
        for (int i = 0; i < kTimes; ++i) {
            std::atomic_ref<std::uint64_t>(value).fetch_add(1);
        }
    });
    const MemoryPiece piece{.direct = reinterpret_cast<std::byte*>(&value), .length_bytes = 8};
    for (int i = 0; i < kTimes; ++i) {
        (void)execute_atomic(piece, {false, 1, 0});
    }
    application.join();
    EXPECT_EQ(value, 2U * kTimes);
}

/// The application adds kOwn after each instruction of the operation. Returns how often.
constexpr std::uint64_t kOwn = 1ULL << 32U;
std::uint64_t execute_beside_others(std::uint64_t& value, const AtomicOperation& operation,
                                    std::uint64_t& before) {
    const MemoryPiece piece{.direct = reinterpret_cast<std::byte*>(&value), .length_bytes = 8};
    return test::SingleStep::through([&] { before = execute_atomic(piece, operation).value_or(0); },
                                     [&value] { std::atomic_ref<std::uint64_t>(value).fetch_add(kOwn); });
}

TEST(Atomics, FetchAndAddIsOneInstruction) {
    alignas(8) std::uint64_t value = 5;
    std::uint64_t before = 0;
    const std::uint64_t steps = execute_beside_others(value, {false, 3, 0}, before);
    EXPECT_EQ(value, 8 + steps * kOwn) << "an addition of the application's is lost";
    EXPECT_EQ(before % kOwn, 5U);
    EXPECT_LE(before / kOwn, steps);
}

// Whichever value the word has when its turn comes is tried as the one to compare with.
TEST(Atomics, CompareAndSwapIsOneInstruction) {
    std::uint64_t swaps = 0;
    std::uint64_t steps = 0;
    for (std::uint64_t own = 0; own <= steps; ++own) {
        alignas(8) std::uint64_t value = 5;
        std::uint64_t before = 0;
        const std::uint64_t compare = 5 + own * kOwn;
        steps = execute_beside_others(value, {true, 9 + own * kOwn, compare}, before);
        const bool swapped = value % kOwn == 9;
        EXPECT_EQ(swapped, before == compare);
        EXPECT_EQ(value, (swapped ? 9 : 5) + steps * kOwn) << "an addition of the application's is lost";
        swaps += swapped ? 1 : 0;
    }
    EXPECT_EQ(swaps, 1U);
}

TEST(Atomics, SavedResultsAreFoundByPsnAndForgotten) {
    AtomicReplayCache saved;
    EXPECT_EQ(saved.find(Psn(0), kMaxRdAtomic), std::nullopt);
    for (std::uint32_t i = 0; i < 20; ++i) {
        saved.save(Psn(i), 100 + i);
    }
    EXPECT_EQ(saved.find(Psn(19), kMaxRdAtomic), 119U);
    EXPECT_EQ(saved.find(Psn(4), kMaxRdAtomic), 104U);
    EXPECT_EQ(saved.find(Psn(3), kMaxRdAtomic), std::nullopt);
    EXPECT_EQ(saved.find(Psn(17), 2), std::nullopt);
    EXPECT_EQ(saved.find(Psn(18), 2), 118U);
    saved.reset();
    EXPECT_EQ(saved.find(Psn(19), kMaxRdAtomic), std::nullopt);
}

}  // namespace
}  // namespace urnic
