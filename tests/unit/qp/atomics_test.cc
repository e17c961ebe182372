#include "rnic/qp/rc_atomics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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

TEST(Atomics, SavedResultsAreFoundByPsnAndForgotten) {
    SavedAtomics saved;
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
