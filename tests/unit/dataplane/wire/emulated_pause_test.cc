// Pause frames on the in-process wire with a switch in it: from RNICs to their switch, and from it to them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/dataplane/wire/emulated.h"

namespace urnic::dataplane {
namespace {

using namespace rig;

class EmulatedPauseTest : public EmulatedNetworkTest {};

TEST_F(EmulatedPauseTest, WhatWaitsForAnRnicIsCounted) {
    Emulated lab;
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(lab.send(0, 2));
    }
    EXPECT_EQ(lab.at(2).rx_waiting(0), 0U) << "nothing has come yet";
    lab.now += 10'000'000;
    EXPECT_EQ(lab.at(2).rx_waiting(0), 5U);
    EXPECT_EQ(lab.drain(2), 5U);
    EXPECT_EQ(lab.at(2).rx_waiting(0), 0U);
}

// 100 Mbit/s: 65535 quanta are 336 ms, 1000 are 5.12 ms, and a frame takes some 90 us on each link.
TEST_F(EmulatedPauseTest, AnRnicsPauseStopsItsSwitchPortUntilItIsOver) {
    for (const bool runs_out : {false, true}) {
        Emulated lab;
        ASSERT_TRUE(lab.send_pause(2, 0x01, runs_out ? 1'000 : 0xffff));
        ASSERT_EQ(lab.pass(100'000, 2), 0U);
        constexpr std::uint8_t kPriority3 = 3U << 5U | wire::kEct0;
        ASSERT_TRUE(lab.send(0, 2));
        ASSERT_TRUE(lab.send(0, 2, kPriority3));
        ASSERT_TRUE(lab.send(0, 1));
        EXPECT_EQ(lab.pass(2'000'000, 2), 1U) << "of the priority that is not paused";
        EXPECT_EQ(lab.drain(1), 1U) << "another RNIC's";
        EXPECT_GT(lab.network.view(2).queue_bytes, kPayload);
        EXPECT_EQ(lab.network.view(2).counters.pauses_received, 1U);
        EXPECT_EQ(lab.network.view(1).counters.pauses_received, 0U);
        if (!runs_out) {
            EXPECT_EQ(lab.pass(300'000'000, 2), 0U);
            ASSERT_TRUE(lab.send_pause(2, 0x01, 0));
        }
        EXPECT_EQ(lab.pass(4'000'000, 2), 1U);
        EXPECT_EQ(lab.network.view(2).queue_bytes, 0U);
        EXPECT_TRUE(lab.told.empty()) << "a pause frame ends at the switch";
    }
}

TEST_F(EmulatedPauseTest, APauseOfAnotherWorkerGoesToTheSwitchToo) {
    Emulated lab(2);
    ASSERT_TRUE(lab.send_pause(2, 0x01, 0xffff, 1));
    ASSERT_EQ(lab.pass(100'000, 2), 0U);
    EXPECT_EQ(lab.network.view(2).counters.pauses_received, 1U);
}

TEST_F(EmulatedPauseTest, AStormOfPausesIsBoundedAndEndsAtTheWatchdog) {
    EmulatedNetwork::Options options = Emulated::options(100'000, {});
    options.switches.pfc.watchdog_ns = 2'000'000;
    Emulated lab(options);
    // All at one time: the link cannot hold them, and the RNIC keeps what it is not taken.
    std::uint32_t taken = 0;
    while (lab.send_pause(2, 0xff, 0xffff)) {
        ASSERT_LT(++taken, 1'000U);
    }
    EXPECT_GT(taken, 10U);
    ASSERT_TRUE(lab.send(0, 2));
    ASSERT_TRUE(lab.send(0, 1));
    for (int i = 0; i < 100; ++i) {
        (void)lab.send_pause(2, 0xff, 0xffff);
        EXPECT_EQ(lab.pass(100'000, 2), 0U);
    }
    const NetworkPortView view = lab.network.view(2);
    EXPECT_EQ(view.counters.watchdog_trips, 1U);
    EXPECT_EQ(view.counters.watchdog_dropped, 1U);
    EXPECT_EQ(view.queue_bytes, 0U);
    EXPECT_EQ(lab.drain(1), 1U);
    ASSERT_TRUE(lab.send_pause(2, 0xff, 0));
    ASSERT_TRUE(lab.send(0, 2));
    EXPECT_EQ(lab.pass(10'000'000, 2), 1U);
}

TEST_F(EmulatedPauseTest, MacControlFramesOfOtherKindsEndAtTheSwitch) {
    Emulated lab;
    rte_mbuf* frame = Emulated::make_frame(0, 2);
    auto* const bytes = rte_pktmbuf_mtod(frame, std::uint8_t*);
    bytes[12] = 0x88;
    bytes[13] = 0x08;
    ASSERT_EQ(lab.at(0).tx_burst(0, &frame, 1), 1);
    EXPECT_EQ(lab.finish(2), 0U);
    EXPECT_EQ(lab.network.view(0).counters.dropped, 1U);
    EXPECT_EQ(lab.network.view(0).counters.pauses_received, 0U);
}

// Two senders and a receiver's link of one's rate: without pauses 100 KB would not do.
TEST_F(EmulatedPauseTest, ASwitchWithFlowControlPausesRnicsAndDropsNothing) {
    for (const bool lossless : {false, true}) {
        EmulatedNetwork::Options options = Emulated::options(30'000, {});
        if (lossless) {
            options.switches.pfc = {
                .lossless = 0x01, .xoff_bytes = 10'000, .xon_bytes = 5'000, .headroom_bytes = 20'000};
        }
        Emulated lab(options);
        std::uint32_t sent = 0;
        std::uint32_t came = 0;
        for (int i = 0; i < 2'000; ++i) {
            sent += lab.send(0, 2) ? 1 : 0;
            sent += lab.send(1, 2) ? 1 : 0;
            came += lab.pass(20'000, 2);
            (void)lab.drain(0);
            (void)lab.drain(1);
        }
        came += lab.finish(2);
        (void)lab.drain(0);
        const NetworkPortView view = lab.network.view(2);
        EXPECT_GT(sent, 400U);
        EXPECT_EQ(view.counters.dropped != 0, !lossless);
        EXPECT_EQ(came + view.counters.dropped, sent);
        EXPECT_EQ(lab.network.view(0).counters.pauses_sent != 0, lossless);
        const auto count = [&](std::uint32_t port, std::uint16_t quanta) {
            return std::count_if(lab.told.begin(), lab.told.end(), [&](const auto& pause) {
                return pause.first == port && pause.second.class_enable == 0x01 &&
                       pause.second.pause_quanta[0] == quanta;
            });
        };
        EXPECT_EQ(count(0, 0xffff) != 0, lossless) << "an RNIC is told to stop";
        EXPECT_EQ(count(0, 0) != 0, lossless) << "and to go on";
        EXPECT_EQ(count(2, 0xffff), 0);
    }
}

TEST_F(EmulatedPauseTest, FramesOfALosslessPriorityWaitForRoomInTheNetwork) {
    EmulatedNetwork::Options options = Emulated::options(100'000, {});
    options.frames = 8;
    options.switches.pfc = {
        .lossless = 0x01, .xoff_bytes = 50'000, .xon_bytes = 40'000, .headroom_bytes = 20'000};
    Emulated lab(options);
    std::uint32_t sent = 0;
    while (lab.send(0, 2)) {
        ASSERT_LT(++sent, 9U);
    }
    EXPECT_EQ(sent, 8U);
    EXPECT_EQ(lab.finish(2), sent);
    EXPECT_EQ(lab.network.view(2).counters.dropped, 0U);
}

}  // namespace
}  // namespace urnic::dataplane
