#include "netsim/switch/switch.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace urnic::netsim {
namespace {

constexpr BitsPerSecond kLinkRate = 1'000'000'000;
constexpr std::uint32_t kFrameBytes = 1000;  // 8 us at 1 Gbit/s

struct Sent {
    PortIndex port;
    const SwitchedPacket* packet;
    TimeNs done;
};

struct Pause {
    TimeNs at;
    PortIndex port;
    int priority;
    int quanta;
    bool operator==(const Pause&) const = default;
};

class SwitchTest : public ::testing::Test, public SwitchOutbox {
  protected:
    void build(std::size_t ports = 4) {
        options_.ports.resize(ports, {.rate = kLinkRate, .weights = weights_});
        switch_ = std::make_unique<Switch>(options_, *this);
    }
    SwitchedPacket& packet(std::uint8_t priority = 0, std::uint32_t bytes = kFrameBytes) {
        SwitchedPacket& made = packets_.emplace_back();
        made.bytes = bytes;
        made.priority = priority;
        made.ecn_capable = true;
        return made;
    }
    void arrive(PortIndex in, PortIndex out, std::uint8_t priority = 0, std::uint32_t bytes = kFrameBytes) {
        switch_->receive(now_, in, out, packet(priority, bytes));
    }
    // As an owner does: at each deadline up to `end`.
    void pass_until(TimeNs end) {
        for (TimeNs due = switch_->deadline(); due <= end; due = switch_->deadline()) {
            now_ = std::max(now_, due);
            switch_->on_timer(now_);
            ASSERT_GT(switch_->deadline(), now_) << "the timer would spin";
        }
        now_ = end;
    }
    [[nodiscard]] std::vector<int> priorities_sent() const {
        std::vector<int> list;
        for (const Sent& each : sent_) {
            list.push_back(each.packet->priority);
        }
        return list;
    }

    void transmit(PortIndex port, SwitchedPacket& packet, TimeNs done) override {
        sent_.push_back({port, &packet, done});
    }
    void drop(SwitchedPacket& packet) override { dropped_.push_back(&packet); }
    void pause(PortIndex port, std::uint8_t priority, std::uint16_t quanta) override {
        pauses_.push_back({now_, port, priority, quanta});
    }

    std::array<std::uint32_t, kPriorities> weights_{};
    SwitchOptions options_{.ports = {}, .buffer_bytes = 1'000'000};
    std::unique_ptr<Switch> switch_;
    std::deque<SwitchedPacket> packets_;
    std::vector<Sent> sent_;
    std::vector<const SwitchedPacket*> dropped_;
    std::vector<Pause> pauses_;
    TimeNs now_ = 1'000;
};

TEST_F(SwitchTest, PacketsLeaveOneAfterTheOtherAtTheRateOfThePort) {
    build();
    arrive(0, 2);
    arrive(1, 2);
    arrive(1, 3);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].done, 1'000 + 8'000U);
    EXPECT_EQ(sent_[1].port, 3);
    EXPECT_EQ(switch_->used_bytes(), kFrameBytes);
    pass_until(100'000);
    ASSERT_EQ(sent_.size(), 3U);
    EXPECT_EQ(sent_[2].done, 1'000 + 16'000U);
    EXPECT_EQ(switch_->used_bytes(), 0U);
    EXPECT_EQ(switch_->counters(2).tx_bytes, 2 * kFrameBytes);
    EXPECT_EQ(switch_->counters(2).most_bytes, kFrameBytes);
    EXPECT_EQ(switch_->deadline(), kNever);
}

TEST_F(SwitchTest, SmallFramesAtHighRatesTakeAsLongAsTheyShould) {
    options_.ports.assign(2, {.rate = 400 * kLinkRate});
    build(2);
    constexpr int kCount = 10'000;
    for (int i = 0; i < kCount; ++i) {
        arrive(0, 1, 0, 64);  // 1.28 ns
    }
    pass_until(1'000'000);
    EXPECT_EQ(sent_.size(), static_cast<std::size_t>(kCount));
    EXPECT_NEAR(static_cast<double>(sent_.back().done - 1'000), kCount * 1.28, 2);
}

TEST_F(SwitchTest, TheHighestPriorityGoesFirst) {
    build();
    for (const std::uint8_t priority : {0, 3, 7, 5}) {
        arrive(0, 1, priority);
    }
    pass_until(1'000'000);
    EXPECT_EQ(priorities_sent(), (std::vector<int>{0, 7, 5, 3}));
}

TEST_F(SwitchTest, WeightsShareWhatStrictPrioritiesLeave) {
    weights_ = {1, 3, 0, 0, 0, 0, 0, 0};
    build();
    for (int i = 0; i < 200; ++i) {
        arrive(0, 1, 0, 1500);
        arrive(0, 1, 1, 500);
    }
    arrive(0, 1, 6);
    sent_.clear();
    pass_until(1'000 + 200 * 8'000);
    EXPECT_EQ(sent_.front().packet->priority, 6);
    // Bytes, not packets, by weight, while both have some.
    std::array<double, 2> seen{};
    for (std::size_t i = 1; i < 100; ++i) {
        seen[sent_[i].packet->priority] += sent_[i].packet->bytes;
    }
    EXPECT_NEAR(seen[1] / seen[0], 3.0, 0.4);
}

TEST_F(SwitchTest, WhatDoesNotFitIsDropped) {
    options_.buffer_bytes = 3'500;
    options_.queue_bytes = 2'000;
    build();
    for (int i = 0; i < 4; ++i) {
        arrive(0, 1, 0);  // one leaves at once, two wait
    }
    EXPECT_EQ(dropped_.size(), 1U);
    EXPECT_EQ(switch_->counters(1).dropped, 1U);
    arrive(0, 1, 1);
    EXPECT_EQ(dropped_.size(), 1U);  // another queue
    arrive(0, 2, 0);
    EXPECT_EQ(dropped_.size(), 2U);  // the buffer is full, though this port has nothing to do
    EXPECT_EQ(switch_->used_bytes(), 3 * kFrameBytes);
    pass_until(1'000'000);
    EXPECT_EQ(switch_->used_bytes(), 0U);
    arrive(7, 1);
    arrive(0, 9);
    arrive(0, 1, 8);
    EXPECT_EQ(dropped_.size(), 5U);
}

TEST(EcnChance, RisesFromKminToKmax) {
    const EcnOptions ecn{.kmin_bytes = 5'000, .kmax_bytes = 205'000, .pmax = Fraction::of(1, 100)};
    EXPECT_EQ(ecn.chance(0).raw(), 0U);
    EXPECT_EQ(ecn.chance(5'000).raw(), 0U);
    EXPECT_EQ(ecn.chance(105'000), Fraction::of(1, 100).times(Fraction::of(1, 2)));
    EXPECT_LT(ecn.chance(204'999).raw(), Fraction::of(1, 100).raw() + 1);
    EXPECT_EQ(ecn.chance(205'000), Fraction::one());
    EXPECT_EQ(EcnOptions{}.chance(1'000'000).raw(), 0U);
    const EcnOptions step{.kmin_bytes = 10, .kmax_bytes = 10, .pmax = Fraction::one()};
    EXPECT_EQ(step.chance(10).raw(), 0U);
    EXPECT_EQ(step.chance(11), Fraction::one());
}

TEST_F(SwitchTest, MarksByTheLengthOfTheQueueThatAPacketLeavesBehind) {
    options_.ecn[3] = {
        .kmin_bytes = 10 * kFrameBytes, .kmax_bytes = 1'000 * kFrameBytes, .pmax = Fraction::of(1, 2)};
    options_.buffer_bytes = 3'000 * kFrameBytes;
    build();
    constexpr std::size_t kPackets = 1'006;
    for (std::size_t i = 0; i < kPackets; ++i) {
        SwitchedPacket& made = packet(3);
        made.ecn_capable = i != 1;
        switch_->receive(now_, 0, 1, made);
    }
    pass_until(10'000'000);
    EXPECT_FALSE(packets_[0].marked) << "it left at once";
    EXPECT_FALSE(packets_[1].marked) << "it must not be";
    for (std::size_t i = 2; kPackets - 1 - i >= 1'000; ++i) {
        EXPECT_TRUE(packets_[i].marked) << i << " left kmax behind";
    }
    for (std::size_t i = kPackets - 11; i < kPackets; ++i) {
        EXPECT_FALSE(packets_[i].marked) << i << " left no more than kmin";
    }
    // The mean chance over the first thousand is a quarter.
    EXPECT_NEAR(static_cast<double>(switch_->counters(1).marked), 250, 60);
    EXPECT_EQ(switch_->counters(1).tx_packets, kPackets);
}

TEST_F(SwitchTest, TheSameSeedMarksTheSamePackets) {
    options_.ecn[0] = {.kmin_bytes = 0, .kmax_bytes = 1'000 * kFrameBytes, .pmax = Fraction::one()};
    const auto marks = [&](std::uint64_t seed) {
        options_.seed = seed;
        build();
        packets_.clear();
        for (int i = 0; i < 300; ++i) {
            arrive(0, 1);
        }
        pass_until(now_ + 10'000'000);
        std::string text;
        for (const SwitchedPacket& each : packets_) {
            text += each.marked ? '1' : '0';
        }
        return text;
    };
    const std::string first = marks(5);
    EXPECT_EQ(marks(5), first);
    EXPECT_NE(marks(6), first);
}

class PfcTest : public SwitchTest {
  protected:
    PfcTest() {
        options_.pfc = {
            .lossless = 1U << 3U, .xoff_bytes = 4'000, .xon_bytes = 2'000, .headroom_bytes = 3'000};
        options_.buffer_bytes = 6'000;
    }
};

TEST_F(PfcTest, PausesTheSenderAndLetsItGoOn) {
    build();
    for (int i = 0; i < 5; ++i) {
        arrive(0, 1, 3);
    }
    EXPECT_TRUE(pauses_.empty());  // one has left: four thousand are here
    arrive(0, 1, 3);
    EXPECT_EQ(pauses_, (std::vector<Pause>{{1'000, 0, 3, 0xffff}}));
    pass_until(1'000 + 2 * 8'000);
    EXPECT_EQ(pauses_.size(), 1U);
    pass_until(1'000 + 3 * 8'000);
    EXPECT_EQ(pauses_.back(), (Pause{1'000 + 3 * 8'000, 0, 3, 0}));
    pass_until(100'000'000);
    EXPECT_EQ(pauses_.size(), 2U);
    EXPECT_EQ(switch_->counters(0).pauses_sent, 1U);
}

TEST_F(PfcTest, HeadroomTakesWhatWasOnItsWayAndNoMore) {
    build();
    for (int i = 0; i < 10; ++i) {
        arrive(0, 1, 3);  // 1 leaves, 6 fill the buffer, 3 the headroom
    }
    EXPECT_TRUE(dropped_.empty());
    EXPECT_EQ(switch_->headroom_used_bytes(), 3'000U);
    arrive(0, 1, 3);
    EXPECT_EQ(dropped_.size(), 1U);
    arrive(2, 1, 3);  // the headroom of another port is its own
    EXPECT_EQ(dropped_.size(), 1U);
    arrive(2, 1, 0);  // and a priority that may be dropped has none
    EXPECT_EQ(dropped_.size(), 2U);
    pass_until(1'000'000);
    EXPECT_EQ(switch_->used_bytes() + switch_->headroom_used_bytes(), 0U);
    EXPECT_EQ(sent_.size(), 11U);
    for (int i = 0; i < 10; ++i) {
        // The same packets come again, also those that lay in headroom; each counts where it lies now.
        switch_->receive(now_, 0, 1, packets_[static_cast<std::size_t>(9 - i)]);
    }
    EXPECT_EQ(dropped_.size(), 2U);
    pass_until(2'000'000);
    EXPECT_EQ(switch_->used_bytes(), 0U);
    EXPECT_EQ(switch_->headroom_used_bytes(), 0U);
}

TEST_F(PfcTest, TheLimitOfAQueueIsForWhatMayBeDropped) {
    options_.queue_bytes = 1'000;
    build();
    for (int i = 0; i < 4; ++i) {
        arrive(0, 1, 3);
    }
    EXPECT_TRUE(dropped_.empty());
    arrive(0, 1, 0);
    arrive(0, 1, 0);
    EXPECT_EQ(dropped_.size(), 1U);
}

TEST_F(PfcTest, APauseIsRenewedWhileItIsNeeded) {
    build();
    switch_->receive_pause(now_, 1, 3, 0xffff);  // what is behind port 1 stands still, too
    for (int i = 0; i < 5; ++i) {
        arrive(0, 1, 3);
    }
    EXPECT_EQ(pauses_.size(), 1U);
    const TimeNs half = TimeNs{0xffff} * 512 / 2;
    pass_until(1'000 + half + 1);
    EXPECT_EQ(pauses_.size(), 2U);
    EXPECT_EQ(pauses_.back().quanta, 0xffff);
    pass_until(100'000'000);  // port 1's pause runs out by itself
    EXPECT_EQ(pauses_.back().quanta, 0);
    EXPECT_EQ(sent_.size(), 5U);
}

TEST_F(PfcTest, HonoursPausesOfEachPriority) {
    build();
    arrive(0, 1, 3);
    switch_->receive_pause(now_, 1, 3, 100);
    arrive(0, 1, 3);
    arrive(0, 1, 2);
    pass_until(1'000 + 20'000);
    EXPECT_EQ(priorities_sent(), (std::vector<int>{3, 2}));
    pass_until(1'000 + 51'199);
    EXPECT_EQ(sent_.size(), 2U);
    pass_until(1'000 + 51'200);  // 100 quanta of 512 ns
    EXPECT_EQ(sent_.size(), 3U);
    pass_until(100'000);
    arrive(0, 1, 3);
    switch_->receive_pause(now_, 1, 3, 0xffff);
    arrive(0, 1, 3);
    pass_until(now_ + 1'000'000);
    EXPECT_EQ(sent_.size(), 4U);  // the one that was on the wire
    switch_->receive_pause(now_, 1, 3, 0);
    EXPECT_EQ(sent_.size(), 5U);
    EXPECT_EQ(switch_->counters(1).pauses_received, 2U);
    switch_->receive_pause(now_, 9, 3, 1);  // nonsense harms nothing
    switch_->receive_pause(now_, 1, 9, 1);
}

TEST_F(PfcTest, TheWatchdogEndsAPauseStorm) {
    options_.pfc.watchdog_ns = 100'000'000;
    build();
    arrive(0, 1, 3);
    pass_until(20'000);
    const TimeNs begin = now_;
    for (int i = 0; i < 3; ++i) {
        switch_->receive_pause(now_, 1, 3, 0xffff);
        arrive(0, 1, 3);
        pass_until(now_ + 30'000'000);
    }
    EXPECT_TRUE(dropped_.empty());
    switch_->receive_pause(now_, 1, 3, 0xffff);
    pass_until(begin + 99'999'999);
    EXPECT_TRUE(dropped_.empty());
    pass_until(begin + 100'000'000);
    EXPECT_EQ(dropped_.size(), 3U);
    EXPECT_EQ(switch_->counters(1).watchdog_trips, 1U);
    EXPECT_EQ(switch_->counters(1).watchdog_dropped, 3U);
    EXPECT_EQ(switch_->used_bytes(), 0U);
}

// Whatever comes: nothing is lost or doubled, the counts balance, and lossless priorities whose senders stop
// in time lose nothing.
TEST_F(PfcTest, RandomTrafficLeavesBalancedBooks) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    options_.buffer_bytes = 60'000;
    options_.pfc.headroom_bytes = 20'000;
    options_.pfc.watchdog_ns = 5'000'000;
    options_.ecn[0] = {.kmin_bytes = 1'000, .kmax_bytes = 9'000, .pmax = Fraction::of(1, 5)};
    weights_ = {1, 2, 0, 5, 0, 0, 0, 0};
    build(6);
    for (int i = 0; i < 20'000; ++i) {
        const std::uint32_t what = random() % 100;
        if (what < 80) {
            arrive(static_cast<PortIndex>(random() % 6), static_cast<PortIndex>(random() % 3),
                   static_cast<std::uint8_t>(random() % 8), 64 + random() % 4'000);
        } else if (what < 83) {
            switch_->receive_pause(now_, static_cast<PortIndex>(random() % 6),
                                   static_cast<std::uint8_t>(random() % 8),
                                   static_cast<std::uint16_t>(random() % 3 == 0 ? 0 : random()));
        } else {
            pass_until(now_ + random() % 20'000);
        }
        ASSERT_LE(switch_->used_bytes(), options_.buffer_bytes);
    }
    pass_until(now_ + 1'000'000'000);
    EXPECT_EQ(switch_->used_bytes() + switch_->headroom_used_bytes(), 0U);
    EXPECT_EQ(sent_.size() + dropped_.size(), packets_.size());
    EXPECT_GT(dropped_.size(), 0U);
    int open = 0;
    for (const Pause& each : pauses_) {
        open += each.quanta == 0 ? -1 : 0;
    }
    std::uint64_t renewed = 0;
    for (PortIndex port = 0; port < 6; ++port) {
        renewed += switch_->counters(port).pauses_sent;
        for (std::uint8_t priority = 0; priority < kPriorities; ++priority) {
            EXPECT_EQ(switch_->queue_bytes(port, priority), 0U);
        }
    }
    EXPECT_GE(renewed, static_cast<std::uint64_t>(-open));
    EXPECT_GT(-open, 0);
}

}  // namespace
}  // namespace urnic::netsim
