// The in-process wire with a switch in it, by a clock that the tests turn.
#include "dataplane/wire/emulated_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "os/setup_error.h"
#include "tests/unit/dataplane/wire/emulated.h"

namespace urnic::dataplane {
namespace {

using namespace rig;

TEST_F(EmulatedNetworkTest, AFrameTakesItsTimeOnBothLinks) {
    Emulated lab;
    EXPECT_TRUE(lab.network.port(0).has_events(0));
    EXPECT_EQ(lab.network.port(0).next_event(0), kNever);
    ASSERT_TRUE(lab.send(0, 2));
    const std::uint64_t bytes = lab.network.view(0).sent_bytes;
    EXPECT_GT(bytes, kPayload);
    const TimeNs due = lab.now + 2 * (bytes * 8'000'000'000 / kRate + kDelay);
    while (lab.network.port(2).next_event(0) < due) {
        lab.now = lab.network.port(2).next_event(0);
        EXPECT_EQ(lab.receive(2), nullptr);
    }
    EXPECT_EQ(lab.network.port(2).next_event(0), due);
    lab.now = due - 1;
    EXPECT_EQ(lab.receive(2), nullptr);
    lab.now = due;
    EXPECT_EQ(lab.drain(2), 1U);
    EXPECT_EQ(lab.network.port(2).next_event(0), kNever);
    EXPECT_EQ(lab.network.view(2).counters.tx_bytes, bytes);
}

// A worker sleeps until next_event(): what was delivered to a port that it has looked at already must not
// wait there for another frame.
TEST_F(EmulatedNetworkTest, WhatAnotherPortsReceiveDeliveredIsLookedForAtOnce) {
    Emulated lab;
    ASSERT_TRUE(lab.send(1, 0));
    EXPECT_EQ(lab.receive(0), nullptr);
    lab.now += 10'000'000;
    EXPECT_EQ(lab.receive(2), nullptr);  // lets the network run
    EXPECT_LE(lab.network.port(0).next_event(0), lab.now);
    EXPECT_EQ(lab.drain(0), 1U);
    EXPECT_EQ(lab.network.port(0).next_event(0), kNever);
}

TEST_F(EmulatedNetworkTest, MarksWhatMayBeMarkedAboveTheThreshold) {
    const netsim::EcnOptions ecn{2'000, 4'000, Fraction::one()};
    for (const std::uint8_t traffic_class : {std::uint8_t{wire::kEct0}, std::uint8_t{0}}) {
        Emulated lab(1, 100'000, ecn);
        for (int i = 0; i < 10; ++i) {
            ASSERT_TRUE(lab.send(0, 2, traffic_class));
            ASSERT_TRUE(lab.send(1, 2, traffic_class));
        }
        EXPECT_EQ(lab.finish(2), 20U);
        EXPECT_EQ(lab.network.view(2).counters.marked, lab.marked);
        EXPECT_EQ(lab.marked != 0, traffic_class == wire::kEct0);
        EXPECT_LT(lab.marked, 20U) << "the last ones leave a short queue behind";
        EXPECT_GT(lab.network.view(2).counters.most_bytes, 4'000U);
        EXPECT_EQ(lab.network.view(2).queue_bytes, 0U);
        EXPECT_EQ(lab.network.view(0).counters.marked, 0U);
    }
}

TEST_F(EmulatedNetworkTest, DropsAndCountsWhatTheBufferDoesNotHold) {
    Emulated lab(1, 4'000);
    std::uint32_t sent = 0;
    for (int i = 0; i < 12; ++i) {
        sent += lab.send(0, 2) ? 1 : 0;
        sent += lab.send(1, 2) ? 1 : 0;
    }
    EXPECT_EQ(sent, 24U);
    const std::uint32_t came = lab.finish(2);
    const NetworkPortView view = lab.network.view(2);
    EXPECT_GT(view.counters.dropped, 0U);
    EXPECT_EQ(came + view.counters.dropped, sent);
    EXPECT_EQ(view.counters.tx_packets, came);
    EXPECT_LE(view.counters.most_bytes, 4'000U);
}

TEST_F(EmulatedNetworkTest, AnRnicWhosePortIsFullWaitsAndTheOthersDoNot) {
    Emulated lab;
    std::uint32_t sent = 0;
    while (lab.send(0, 2)) {
        ASSERT_LT(++sent, 100U);
    }
    EXPECT_GT(sent, 10U);
    EXPECT_TRUE(lab.send(1, 2));
    EXPECT_EQ(lab.finish(2), sent + 1);
    EXPECT_TRUE(lab.send(0, 2));
    EXPECT_EQ(lab.network.view(2).counters.dropped, 0U);
}

TEST_F(EmulatedNetworkTest, FramesOfOtherWorkersGoThroughTheNetwork) {
    Emulated lab(2);
    EXPECT_FALSE(lab.network.port(0).has_events(1));
    EXPECT_EQ(lab.network.port(0).next_event(1), kNever);
    ASSERT_TRUE(lab.send(0, 2, wire::kEct0, 1));
    EXPECT_EQ(lab.network.view(0).sent_packets, 0U);
    EXPECT_EQ(lab.receive(0), nullptr);  // worker 0 takes it over
    EXPECT_EQ(lab.network.view(0).sent_packets, 1U);
    EXPECT_EQ(lab.finish(2), 1U);
    rte_mbuf* odd = Emulated::make_frame(0, 2, 0, 5);  // for a QP of worker 1
    ASSERT_EQ(lab.at(0).tx_burst(0, &odd, 1), 1);
    EXPECT_EQ(lab.finish(2), 0U);
    rte_mbuf* at_its_worker = lab.receive(2, 1);
    EXPECT_EQ(at_its_worker, odd);
    free_frames({&at_its_worker, 1});
}

TEST_F(EmulatedNetworkTest, OfAnotherWorkersFramesNoneIsLostWhileThePortIsFull) {
    Emulated lab(2);
    std::uint32_t sent = 0;
    for (int i = 0; i < 60; ++i) {
        sent += lab.send(0, 2, wire::kEct0, 1) ? 1 : 0;
    }
    EXPECT_EQ(sent, 60U);
    EXPECT_EQ(lab.finish(2), 60U);
}

TEST_F(EmulatedNetworkTest, AnRnicThatTakesNothingStopsTheNetwork) {
    Emulated lab;
    // More than its ring holds, and at the end some are in the ring, in the network and between the two.
    std::uint32_t sent = 0;
    while (lab.network.view(2).counters.tx_packets < InProcessSwitch::kRingFrames + 8) {
        sent += lab.send(0, 2) ? 1 : 0;
        lab.now += 200'000;
        rte_mbuf* none = nullptr;
        ASSERT_EQ(lab.at(1).rx_burst(0, &none, 1), 0);
        if (lab.network.view(2).counters.tx_packets == InProcessSwitch::kRingFrames + 1) {
            break;
        }
        ASSERT_LT(sent, 2 * InProcessSwitch::kRingFrames);
    }
    const std::uint64_t gone = lab.network.view(2).counters.tx_packets;
    lab.now += 1'000'000'000;
    EXPECT_EQ(lab.receive(1), nullptr);
    EXPECT_LE(lab.network.view(2).counters.tx_packets, gone + 1);
    EXPECT_EQ(lab.network.view(2).counters.dropped, 0U);
    EXPECT_EQ(lab.finish(2), sent);
    ASSERT_TRUE(lab.send(0, 2));  // what is on its way at the end is freed
}

TEST_F(EmulatedNetworkTest, UnknownDestinationsAndRuntsDoNotEnterIt) {
    Emulated lab;
    rte_mbuf* elsewhere = Emulated::make_frame(0, 9);
    ASSERT_EQ(lab.at(0).tx_burst(0, &elsewhere, 1), 1);
    rte_mbuf* runt = Emulated::make_frame(0, 2);
    runt->data_len = 5;
    ASSERT_EQ(lab.at(0).tx_burst(0, &runt, 1), 1);
    EXPECT_EQ(lab.local_switch.unknown_mac_frames(), 2U);
    EXPECT_EQ(lab.network.view(0).sent_packets, 0U);
    rte_mbuf* to_itself = Emulated::make_frame(0, 0);
    ASSERT_EQ(lab.at(0).tx_burst(0, &to_itself, 1), 1);
    EXPECT_EQ(lab.drain(0), 1U);
    // Too short for an IP header, but it has a destination.
    rte_mbuf* half_header = Emulated::make_frame(0, 2);
    half_header->data_len = 20;
    half_header->pkt_len = 20;
    ASSERT_EQ(lab.at(0).tx_burst(0, &half_header, 1), 1);
    lab.now += 10'000'000;
    rte_mbuf* came = lab.receive(2);
    EXPECT_EQ(came, half_header);
    free_frames({&came, 1});
}

TEST_F(EmulatedNetworkTest, FramesInTheNetworkAreBounded) {
    Emulated lab;
    EmulatedNetwork::Options options = Emulated::options(100'000, {});
    options.frames = 8;
    EmulatedNetwork network(options, lab.local_switch, 3, lab.handoff);
    for (int i = 0; i < 10; ++i) {
        rte_mbuf* frame = Emulated::make_frame(0, 2);
        ASSERT_EQ(network.port(0).tx_burst(0, &frame, 1), 1);
    }
    EXPECT_EQ(network.view(2).counters.dropped, 2U);
    EXPECT_EQ(network.view(0).sent_packets, 8U);
}

TEST_F(EmulatedNetworkTest, ALinkThatCannotBeIsRefused) {
    Emulated lab;
    EmulatedNetwork::Options options = Emulated::options(100'000, {});
    options.topology.links[0].spec.rate = 1;
    EXPECT_THROW(EmulatedNetwork(options, lab.local_switch, 3, lab.handoff), SetupError);
    options = Emulated::options(100'000, {});
    EXPECT_THROW(EmulatedNetwork(options, lab.local_switch, 2, lab.handoff), SetupError);
    options.topology.links.pop_back();
    EXPECT_THROW(EmulatedNetwork(options, lab.local_switch, 3, lab.handoff), SetupError);
}

TEST_F(EmulatedNetworkTest, FlowsSpreadOverEqualWays) {
    const netsim::LinkSpec link{.rate = kRate, .delay_ns = kDelay};
    EmulatedNetwork::Options options = Emulated::options(100'000, {});
    options.topology = netsim::leaf_spine(3, 2, 1, link, link);
    Emulated lab(options);
    const std::vector<std::string>& trunks = lab.network.trunks();
    ASSERT_EQ(trunks.size(), 12U);  // three leaves, two spines, both directions
    const auto packets = [&](const char* name) {
        const auto found = std::find(trunks.begin(), trunks.end(), name);
        EXPECT_NE(found, trunks.end());
        return lab.network.view(static_cast<std::uint32_t>(3 + (found - trunks.begin()))).counters.tx_packets;
    };
    const auto sent = [&](std::uint32_t port) { return lab.network.view(port).counters.tx_packets; };
    constexpr std::uint16_t kFlows = 64;
    constexpr std::size_t kHeaders = wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes;
    for (std::uint16_t flow = 0; flow < kFlows; ++flow) {
        for (int i = 0; i < 2; ++i) {
            rte_mbuf* frame =
                Emulated::make_frame(0, 2, wire::kEct0, 4, static_cast<std::uint16_t>(0xc000 + flow));
            const std::vector<std::uint32_t> way = lab.network.way(0, frame_bytes(frame).first(kHeaders));
            ASSERT_EQ(way.size(), 3U);
            EXPECT_EQ(way.back(), 2U) << "the port to the RNIC";
            const std::uint64_t before[] = {sent(way[0]), sent(way[1]), sent(way[2])};
            ASSERT_EQ(lab.at(0).tx_burst(0, &frame, 1), 1);
            ASSERT_EQ(lab.finish(2), 1U);
            for (std::size_t hop = 0; hop < 3; ++hop) {
                EXPECT_EQ(sent(way[hop]), before[hop] + 1) << "the frame went another way than it was said";
            }
        }
    }
    EXPECT_EQ(packets("s1>s4") + packets("s1>s5"), 2U * kFlows);
    EXPECT_EQ(packets("s1>s4") % 2, 0U) << "a flow took two ways";
    EXPECT_GT(packets("s1>s4"), kFlows / 2U);  // half of them on average
    EXPECT_GT(packets("s1>s5"), kFlows / 2U);
    EXPECT_EQ(packets("s2>s4"), 0U);
}

TEST_F(EmulatedNetworkTest, WhatDoesNotGoThroughItHasNoWay) {
    Emulated lab;
    rte_mbuf* frame = Emulated::make_frame(0, 0);
    EXPECT_TRUE(lab.network.way(0, frame_bytes(frame)).empty()) << "its own";
    for (std::size_t length = 0; length < wire::kEthernetBytes; ++length) {
        EXPECT_TRUE(lab.network.way(1, frame_bytes(frame).first(length)).empty()) << "a front that is cut";
    }
    EXPECT_EQ(lab.network.way(1, frame_bytes(frame)), std::vector<std::uint32_t>{0});
    rte_pktmbuf_mtod(frame, std::uint8_t*)[0] = 1;
    EXPECT_TRUE(lab.network.way(1, frame_bytes(frame)).empty()) << "to a group";
    free_frames({&frame, 1});
}

}  // namespace
}  // namespace urnic::dataplane
