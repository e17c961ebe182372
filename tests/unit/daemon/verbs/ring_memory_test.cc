#include "daemon/verbs/ring_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace urnic::daemon {
namespace {

constexpr std::uint64_t kNoQuota = ~std::uint64_t{0};

TEST(RingMemory, PiecesArePageAlignedZeroAndApart) {
    RingMemory memory;
    ASSERT_EQ(memory.create(1U << 20U), 0);
    RingPiece a;
    RingPiece b;
    ASSERT_EQ(memory.allocate(1, kNoQuota, a), 0);
    ASSERT_EQ(memory.allocate(5000, kNoQuota, b), 0);
    EXPECT_EQ(a.bytes, 4096U);
    EXPECT_EQ(b.bytes, 8192U);
    EXPECT_GE(b.offset, a.offset + a.bytes);
    std::memset(memory.at(a), 1, a.bytes);
    EXPECT_TRUE(
        std::all_of(memory.at(b), memory.at(b) + b.bytes, [](std::byte x) { return x == std::byte{0}; }));
}

TEST(RingMemory, AFreedPieceComesBackAsZeros) {
    for (const std::uint64_t bytes : {std::uint64_t{65536}, RingMemory::kClearHereBytes * 4}) {
        RingMemory memory;
        ASSERT_EQ(memory.create(bytes), 0);
        RingPiece a;
        ASSERT_EQ(memory.allocate(bytes, kNoQuota, a), 0);
        std::memset(memory.at(a) + 4096, 0xff, 12345);
        const std::uint64_t offset = a.offset;
        memory.release(a);
        // Of a long piece another thread has to be done with it.
        while (memory.allocate(bytes, kNoQuota, a) == ENOMEM) {
            std::this_thread::yield();
        }
        EXPECT_EQ(a.offset, offset);
        EXPECT_TRUE(
            std::all_of(memory.at(a), memory.at(a) + a.bytes, [](std::byte x) { return x == std::byte{0}; }));
    }
}

// Nobody gets it again: who dies with gigabytes of rings keeps nobody waiting for zeros.
TEST(RingMemory, AfterTheEndNothingIsCleared) {
    RingMemory memory;
    ASSERT_EQ(memory.create(2 * RingMemory::kClearHereBytes + 4096), 0);
    RingPiece small;
    RingPiece large;
    ASSERT_EQ(memory.allocate(4096, kNoQuota, small), 0);
    ASSERT_EQ(memory.allocate(RingMemory::kClearHereBytes + 4096, kNoQuota, large), 0);
    std::memset(memory.at(small), 1, small.bytes);
    std::memset(memory.at(large), 1, large.bytes);
    memory.clear_no_more();
    memory.release(small);
    memory.release(large);
    EXPECT_EQ(memory.used_bytes(), 0U);
    for (const RingPiece& piece : {small, large}) {
        EXPECT_TRUE(std::all_of(memory.at(piece), memory.at(piece) + piece.bytes,
                                [](std::byte x) { return x == std::byte{1}; }));
    }
}

// A page that is made by clearing is the daemon's.
TEST(RingMemory, AHoleStaysAHole) {
    for (const std::uint64_t bytes : {RingMemory::kClearHereBytes + 4096, std::uint64_t{256U << 20U}}) {
        SCOPED_TRACE(bytes);
        RingMemory memory;
        ASSERT_EQ(memory.create(bytes), 0);
        RingPiece a;
        ASSERT_EQ(memory.allocate(bytes, kNoQuota, a), 0);
        std::memset(memory.at(a), 0xff, 4096);
        memory.release(a);
        while (memory.allocate(bytes, kNoQuota, a) == ENOMEM) {
            std::this_thread::yield();
        }
        struct stat status {};
        ASSERT_EQ(::fstat(memory.fd(), &status), 0);
        EXPECT_LE(status.st_blocks * 512, 4096);
        EXPECT_EQ(*memory.at(a), std::byte{0});
    }
}

TEST(RingMemory, WhatIsNotZeroIsClearedWhereverItStands) {
    RingMemory memory;
    ASSERT_EQ(memory.create(1U << 20U), 0);
    for (const std::size_t at : {0U, 1U, 4094U, 4095U, 4096U, 8191U}) {
        RingPiece a;
        ASSERT_EQ(memory.allocate(8192, kNoQuota, a), 0);
        memory.at(a)[at] = std::byte{1};
        memory.release(a);
        ASSERT_EQ(memory.allocate(8192, kNoQuota, a), 0);
        EXPECT_EQ(memory.at(a)[at], std::byte{0}) << at;
        memory.release(a);
    }
}

TEST(RingMemory, TheLimitHolds) {
    RingMemory memory;
    ASSERT_EQ(memory.create(3 * 4096), 0);
    RingPiece a;
    RingPiece b;
    RingPiece c;
    ASSERT_EQ(memory.allocate(8192, kNoQuota, a), 0);
    EXPECT_EQ(memory.allocate(8192, kNoQuota, b), ENOMEM);
    EXPECT_EQ(memory.allocate(~std::size_t{0} - 4096, kNoQuota, b), ENOMEM);
    EXPECT_EQ(memory.allocate(4096, kNoQuota, b), 0);
    EXPECT_EQ(memory.allocate(1, kNoQuota, c), ENOMEM);
    memory.release(a);
    EXPECT_EQ(memory.allocate(1, kNoQuota, c), 0);
    EXPECT_EQ(memory.used_bytes(), 8192U);
}

// Pages of pieces that came back stay, so what counts is how far the pieces have ever reached.
TEST(RingMemory, TheExtentGrowsByTheFurthestPiece) {
    RingMemory memory;
    ASSERT_EQ(memory.create(1U << 20U), 0);
    RingPiece a;
    RingPiece b;
    EXPECT_EQ(memory.allocate(8192, 4096, a), EDQUOT);
    EXPECT_EQ(memory.extent_bytes(), 0U);
    ASSERT_EQ(memory.allocate(8192, 8192, a), 0);
    EXPECT_EQ(memory.extent_bytes(), 8192U);
    EXPECT_EQ(memory.allocate(1, 0, b), EDQUOT);
    memory.release(a);
    EXPECT_EQ(memory.extent_bytes(), 8192U) << "its pages are still there";
    EXPECT_EQ(memory.allocate(4096, 0, a), 0);
    EXPECT_EQ(memory.allocate(4096, 0, b), 0);
    EXPECT_EQ(memory.extent_bytes(), 8192U);
}

TEST(RingMemory, AClientCanNeitherShrinkNorGrowIt) {
    RingMemory memory;
    ASSERT_EQ(memory.create(1U << 20U), 0);
    EXPECT_NE(::ftruncate(memory.fd(), 0), 0);
    EXPECT_NE(::ftruncate(memory.fd(), static_cast<off_t>(2 * RingMemory::kFileBytes)), 0);
    EXPECT_NE(::fcntl(memory.fd(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "no further seals";
}

// Random allocation and freeing: pieces never overlap, and in the end everything can be had in one piece.
TEST(RingMemory, RandomUseLeavesNoFragments) {
    const char* given = std::getenv("URNIC_TEST_SEED");
    const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    constexpr std::uint64_t kLimit = 64ULL << 30U;
    RingMemory memory;
    ASSERT_EQ(memory.create(kLimit), 0);
    std::vector<RingPiece> pieces;
    for (int step = 0; step < 3000; ++step) {
        if (pieces.empty() || random() % 3 != 0) {
            RingPiece piece;
            ASSERT_EQ(memory.allocate(1 + random() % 100'000, kNoQuota, piece), 0);
            for (const RingPiece& other : pieces) {
                ASSERT_TRUE(piece.offset + piece.bytes <= other.offset ||
                            other.offset + other.bytes <= piece.offset);
            }
            pieces.push_back(piece);
        } else {
            std::swap(pieces[random() % pieces.size()], pieces.back());
            memory.release(pieces.back());
            pieces.pop_back();
        }
    }
    for (const RingPiece& piece : pieces) {
        memory.release(piece);
    }
    RingPiece all;
    while (memory.allocate(kLimit, kNoQuota, all) == ENOMEM) {
        std::this_thread::yield();
    }
    EXPECT_EQ(memory.used_bytes(), kLimit);
}

}  // namespace
}  // namespace urnic::daemon
