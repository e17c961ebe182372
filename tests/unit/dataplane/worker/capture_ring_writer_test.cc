// The ring between a worker and the reader of a capture: order, wrapping, room, and a reader that lies.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "dataplane/worker/capture_ring_writer.h"

namespace urnic::dataplane {
namespace {

constexpr std::size_t kPart = abi::kMinCaptureRingBytes;
constexpr std::uint64_t kCapacity = 32768;  // the largest power of two behind the header

class CaptureRingTest : public testing::Test {
  protected:
    CaptureRingTest() : memory_(kPart / 64), writer_({bytes(), kPart}) {}

    /// A record whose bytes say its number. Returns whether there was room.
    bool write(std::uint32_t length, std::uint32_t number) {
        std::byte* const room = writer_.reserve(length);
        if (room == nullptr) {
            return false;
        }
        EXPECT_GE(room, bytes() + abi::kCaptureRingHeaderBytes);
        EXPECT_LE(room + length, bytes() + abi::kCaptureRingHeaderBytes + kCapacity);
        const std::uint32_t head[] = {length, 0, number};
        std::memcpy(room, head, sizeof head);
        std::memset(room + sizeof head, static_cast<int>(number & 0xffU), length - sizeof head);
        return true;
    }
    /// The numbers of what the reader sees, which it gives back.
    std::vector<std::uint32_t> read() {
        std::vector<std::uint32_t> numbers;
        const std::uint64_t head = ring().head.load();
        while (tail_ != head) {
            const std::byte* const at = bytes() + abi::kCaptureRingHeaderBytes + tail_ % kCapacity;
            std::uint32_t length = 0;
            std::uint16_t rnic = 0;
            std::memcpy(&length, at, sizeof length);
            std::memcpy(&rnic, at + sizeof length, sizeof rnic);
            if (rnic != abi::kCaptureFiller) {
                std::uint32_t number = 0;
                std::memcpy(&number, at + 8, sizeof number);
                EXPECT_EQ(std::to_integer<std::uint32_t>(at[length - 1]), number & 0xffU);
                numbers.push_back(number);
            }
            tail_ += length;
        }
        ring().tail.store(tail_);
        return numbers;
    }
    abi::CaptureRing& ring() { return *reinterpret_cast<abi::CaptureRing*>(bytes()); }
    std::byte* bytes() { return reinterpret_cast<std::byte*>(memory_.data()); }

    struct alignas(64) Line {
        std::byte bytes[64];
    };
    std::vector<Line> memory_;
    CaptureRingWriter writer_;
    std::uint64_t tail_ = 0;
};

TEST_F(CaptureRingTest, RecordsOfAnyLengthComeInOrder) {
    std::minstd_rand random(1);
    std::uint32_t written = 0;
    std::uint32_t next = 0;
    while (written < 20'000) {
        while (write(16 + 8 * (random() % 600), written)) {
            ++written;
        }
        writer_.publish();
        for (const std::uint32_t number : read()) {
            ASSERT_EQ(number, next++);
        }
        ASSERT_EQ(next, written);
    }
}

TEST_F(CaptureRingTest, NothingIsSeenBeforeItIsPublished) {
    ASSERT_TRUE(write(64, 1));
    EXPECT_TRUE(read().empty());
    writer_.publish();
    EXPECT_EQ(read(), std::vector<std::uint32_t>{1});
}

TEST_F(CaptureRingTest, AReaderThatStallsCostsNothingButRecords) {
    std::uint32_t written = 0;
    while (write(64, written)) {
        ++written;
    }
    writer_.publish();
    EXPECT_EQ(written, kCapacity / 64);
    EXPECT_FALSE(write(64, written));
    EXPECT_EQ(read().size(), written);
    EXPECT_TRUE(write(64, written));
}

TEST_F(CaptureRingTest, ATailThatMakesNoSenseIsNotBelieved) {
    std::uint32_t written = 0;
    while (write(64, written)) {
        ++written;
    }
    for (const std::uint64_t tail : {kCapacity + 64, ~std::uint64_t{0}, std::uint64_t{1} << 63U}) {
        ring().tail.store(tail);
        EXPECT_FALSE(write(64, written)) << tail;
    }
    ring().tail.store(64);
    EXPECT_TRUE(write(64, written));
    ring().tail.store(0);  // it goes back: no more than what was believed is overwritten
    EXPECT_FALSE(write(64, written));
}

}  // namespace
}  // namespace urnic::dataplane
