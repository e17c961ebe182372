// The simulated network itself: what its links and its switch do to frames.
#include "tests/sim/net/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Lt;

constexpr wire::Mac kMacOfA = {2, 0, 0, 0, 0, 1};
constexpr wire::Mac kMacOfB = {2, 0, 0, 0, 0, 2};
constexpr wire::Mac kMacOfC = {2, 0, 0, 0, 0, 3};

/// Keeps what comes.
class Recorder final : public NetworkNode {
  public:
    explicit Recorder(Network& network) : network_(network) {}
    void receive(TimeNs now, DirectionId /*from*/, Frame& frame) override {
        times.push_back(now);
        frames.emplace_back(frame.span().begin(), frame.span().end());
        network_.release(frame);
    }
    void wake(TimeNs now, std::uint64_t token) override {
        times.push_back(now);
        tokens.push_back(token);
    }
    /// The number that send() put into each frame.
    [[nodiscard]] std::vector<std::uint32_t> numbers() const {
        std::vector<std::uint32_t> result;
        for (const std::vector<std::byte>& frame : frames) {
            std::uint32_t number = 0;
            std::memcpy(&number, frame.data() + wire::Mac{}.size(), sizeof number);
            result.push_back(number);
        }
        return result;
    }

    std::vector<TimeNs> times;
    std::vector<std::uint64_t> tokens;
    std::vector<std::vector<std::byte>> frames;

  private:
    Network& network_;
};

class NetworkTest : public ::testing::Test {
  protected:
    void join(const LinkOptions& options) { ends_ = network_.connect(a_, b_, "A", "B", options, options); }
    void send(std::uint32_t number, std::uint32_t length = 100, const wire::Mac& to = kMacOfB) {
        Frame& frame = network_.take_frame();
        frame.length = length;
        std::memset(frame.bytes.data(), 0, length);
        std::memcpy(frame.bytes.data(), to.data(), to.size());
        std::memcpy(frame.bytes.data() + to.size(), &number, sizeof number);
        network_.send(ends_.a_to_b, frame);
    }
    void send_many(std::uint32_t count, std::uint32_t length = 100) {
        for (std::uint32_t i = 0; i < count; ++i) {
            send(i, length);
            network_.run_until(network_.now() + 10);
        }
        network_.run_until(network_.now() + 1'000'000);
    }

    Network network_{1};
    Recorder a_{network_};
    Recorder b_{network_};
    Network::LinkEnds ends_{};
};

TEST_F(NetworkTest, AFrameArrivesAfterItsLengthAtTheRateAndTheDelay) {
    join({.delay_ns = 5'000, .rate_mbit = 1'000});
    send(1, 125);
    send(2, 250);
    network_.run_until(100'000);
    EXPECT_THAT(b_.times, ElementsAre(6'000, 8'000)) << "125 bytes take 1 us at 1 Gb/s";
    EXPECT_THAT(b_.numbers(), ElementsAre(1, 2));
    EXPECT_THAT(a_.times, IsEmpty());
    EXPECT_EQ(network_.frames_in_use(), 0);
}

TEST_F(NetworkTest, WhatIsDueInAStallIsLate) {
    join({.delay_ns = 100});
    send(1);
    EXPECT_EQ(network_.next_time(), 100);
    network_.stall(5'000);
    EXPECT_THAT(b_.times, IsEmpty());
    send(2);
    network_.run_until(10'000);
    EXPECT_THAT(b_.times, ElementsAre(5'000, 5'100));
    EXPECT_EQ(network_.next_time(), kNever);
}

TEST_F(NetworkTest, JitterDelaysAndKeepsTheOrder) {
    join({.delay_ns = 100, .jitter_ns = 5'000});
    send_many(1'000);
    ASSERT_EQ(b_.frames.size(), 1'000);
    EXPECT_TRUE(std::ranges::is_sorted(b_.numbers()));
    EXPECT_GT(b_.times.front(), 100);
}

TEST_F(NetworkTest, LateFramesAreOvertaken) {
    join({.delay_ns = 100, .reorder = 100, .reorder_ns = 2'000});
    send_many(1'000);
    ASSERT_EQ(b_.frames.size(), 1'000);
    EXPECT_FALSE(std::ranges::is_sorted(b_.numbers()));
    EXPECT_THAT(network_.counters(ends_.a_to_b).reordered, ::testing::AllOf(Gt(60), Lt(140)));
}

TEST_F(NetworkTest, LosesAsManyAsAsked) {
    join({.loss = 100});
    send_many(10'000);
    EXPECT_THAT(b_.frames.size(), ::testing::AllOf(Gt(8'800), Lt(9'200)));
    EXPECT_EQ(network_.counters(ends_.a_to_b).lost, 10'000 - b_.frames.size());
    EXPECT_EQ(network_.frames_in_use(), 0);
}

TEST_F(NetworkTest, LosesInBursts) {
    join({.loss = 20, .loss_burst = 5});
    send_many(20'000);
    const std::vector<std::uint32_t> numbers = b_.numbers();
    std::uint32_t longest = 0;
    std::uint32_t gaps = 0;
    for (std::size_t i = 1; i < numbers.size(); ++i) {
        const std::uint32_t lost = numbers[i] - numbers[i - 1] - 1;
        longest = std::max(longest, lost);
        gaps += lost != 0 ? 1 : 0;
    }
    EXPECT_GE(longest, 9);
    const std::uint64_t lost = network_.counters(ends_.a_to_b).lost;
    EXPECT_THAT(lost / gaps, ::testing::AllOf(Gt(3U), Le(7U))) << "frames in a gap";
}

TEST_F(NetworkTest, DuplicatesAreTheSameFrameTwice) {
    join({.duplicate = 1'000});
    send_many(10);
    ASSERT_EQ(b_.frames.size(), 20);
    for (std::size_t i = 0; i < b_.frames.size(); i += 2) {
        EXPECT_EQ(b_.frames[i], b_.frames[i + 1]);
    }
    EXPECT_EQ(network_.frames_in_use(), 0);
}

TEST_F(NetworkTest, CorruptionReachesEveryBitAndChangesFourAtMost) {
    join({.corrupt = 1'000});
    constexpr std::size_t kBytes = 64;
    std::array<std::byte, kBytes> changed{};
    for (std::uint32_t i = 0; i < 5'000; ++i) {
        send(0, kBytes);
        network_.run_until(network_.now() + 10'000);
        std::array<std::byte, kBytes> original{};
        std::memcpy(original.data(), kMacOfB.data(), kMacOfB.size());
        int bits = 0;
        for (std::size_t at = 0; at < kBytes; ++at) {
            const std::byte difference = b_.frames.back()[at] ^ original[at];
            bits += std::popcount(std::to_integer<unsigned>(difference));
            changed[at] |= difference;
        }
        ASSERT_LE(bits, 4);
    }
    EXPECT_THAT(changed, ::testing::Each(std::byte{0xff}));
}

TEST_F(NetworkTest, WhatIsLongerThanTheMtuIsLost) {
    join({.mtu_bytes = 1'500});
    send(1, 1'500 + 18);
    send(2, 1'500 + 19);
    network_.run_until(10'000);
    EXPECT_THAT(b_.numbers(), ElementsAre(1));
    EXPECT_EQ(network_.counters(ends_.a_to_b).too_long, 1);
}

TEST_F(NetworkTest, AFullQueueLosesAndSaysWhenItIsHalfEmpty) {
    join({.delay_ns = 1, .rate_mbit = 8, .queue_bytes = 20'000});
    EXPECT_EQ(network_.room(ends_.a_to_b), 20'000 / wire::kMaxFrameBytes);
    for (std::uint32_t i = 0; i < 30; ++i) {
        send(i, 1'000);  // a millisecond each
    }
    EXPECT_EQ(network_.room(ends_.a_to_b), 0);
    EXPECT_EQ(network_.counters(ends_.a_to_b).queue_full, 30 - 21);
    EXPECT_EQ(network_.half_empty_at(ends_.a_to_b), 11'000'001);
    network_.run_until(11'000'001);
    EXPECT_EQ(network_.room(ends_.a_to_b), 10'000 / wire::kMaxFrameBytes);
}

TEST_F(NetworkTest, ACutLinkLosesEverythingUntilItIsWhole) {
    join({});
    network_.cut(ends_.a_to_b, 500);
    send(1);
    network_.run_until(500);
    send(2);
    network_.run_until(10'000);
    EXPECT_THAT(b_.numbers(), ElementsAre(2));
}

TEST_F(NetworkTest, WakesAgentsInOrder) {
    network_.wake_at(20, a_, 1);
    network_.wake_at(10, a_, 2);
    network_.wake_at(20, a_, 3);
    network_.run_until(100);
    EXPECT_THAT(a_.tokens, ElementsAre(2, 1, 3));
    EXPECT_THAT(a_.times, ElementsAre(10, 20, 20));
    EXPECT_EQ(network_.now(), 100);
}

TEST(Network, ASeedSaysEverything) {
    const auto run = [](std::uint64_t seed) {
        Network network(seed);
        Recorder a(network);
        Recorder b(network);
        const LinkOptions options = {
            .jitter_ns = 500, .loss = 100, .duplicate = 50, .corrupt = 50, .reorder = 50};
        const auto ends = network.connect(a, b, "A", "B", options, options);
        for (std::uint32_t i = 0; i < 2'000; ++i) {
            Frame& frame = network.take_frame();
            frame.length = 64;
            frame.bytes.fill(static_cast<std::byte>(i));
            network.send(i % 3 == 0 ? ends.b_to_a : ends.a_to_b, frame);
            network.run_until(i * 50);
        }
        network.run_until(1'000'000);
        return std::tuple(b.times, b.frames, a.times, a.frames);
    };
    const auto first = run(7);
    EXPECT_EQ(first, run(7));
    EXPECT_NE(first, run(8));
}

TEST(Switch, ForwardsByDestinationAndFloodsWhatItDoesNotKnow) {
    Network network(1);
    Recorder a(network);
    Recorder b(network);
    Recorder c(network);
    Switch center(network);
    const auto attach = [&](Recorder& node, const wire::Mac& mac) {
        const auto ends = network.connect(node, center, "node", "switch", {}, {});
        center.add_port(mac, ends.a_to_b, ends.b_to_a);
        return ends.a_to_b;
    };
    const DirectionId from_a = attach(a, kMacOfA);
    (void)attach(b, kMacOfB);
    (void)attach(c, kMacOfC);
    const auto send = [&](const wire::Mac& to) {
        Frame& frame = network.take_frame();
        frame.length = 64;
        frame.bytes.fill(std::byte{0});
        std::memcpy(frame.bytes.data(), to.data(), to.size());
        network.send(from_a, frame);
        network.run_until(network.now() + 100'000);
    };
    send(kMacOfB);
    EXPECT_EQ(b.frames.size(), 1);
    EXPECT_EQ(c.frames.size(), 0);
    send({2, 0, 0, 0, 0, 9});
    EXPECT_EQ(a.frames.size(), 0);
    EXPECT_EQ(b.frames.size(), 2);
    EXPECT_EQ(c.frames.size(), 1);
    EXPECT_EQ(network.frames_in_use(), 0);
}

}  // namespace
}  // namespace urnic::sim
