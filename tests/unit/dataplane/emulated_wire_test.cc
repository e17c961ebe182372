// The in-process wire with a switch in it, by a clock that the tests turn.
#include "dataplane/emulated_wire.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <vector>

#include "dataplane/eal.h"
#include "dataplane/fabric.h"
#include "dataplane/frame_pool.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

constexpr std::uint64_t kRate = 100'000'000;  // 80 ns a byte
constexpr TimeNs kDelay = 5'000;
constexpr std::uint32_t kPayload = 1024;

wire::Mac mac_of_port(std::uint32_t port) { return {2, 0, 0, 0, 1, static_cast<std::uint8_t>(port)}; }
wire::Gid gid_of_port(std::uint32_t port) {
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 1, static_cast<std::uint8_t>(port + 1)};
}

struct Emulated {
    explicit Emulated(std::uint32_t workers = 1, std::uint64_t buffer = 100'000,
                      const congestion::EcnOptions& ecn = {})
        : steering(state, workers),
          fabric({{mac_of_port(0), {}}, {mac_of_port(1), {}}, {mac_of_port(2), {}}}, steering),
          wire(options(buffer, ecn), fabric, 3, steering) {}

    static EmulatedWire::Options options(std::uint64_t buffer, const congestion::EcnOptions& ecn) {
        EmulatedWire::Options made;
        made.link = {.rate = kRate, .delay_ns = kDelay};
        made.switches.buffer_bytes = buffer;
        made.switches.ecn.fill(ecn);
        return made;
    }
    static rte_mbuf* make_frame(std::uint32_t from, std::uint32_t to,
                                std::uint8_t traffic_class = wire::kEct0, std::uint32_t dest_qp = 4) {
        wire::PathSpec spec;
        spec.src_mac = mac_of_port(from);
        spec.dst_mac = mac_of_port(to);
        spec.src_gid = gid_of_port(from);
        spec.dst_gid = gid_of_port(to);
        spec.traffic_class = traffic_class;
        wire::PacketHeader header;
        header.opcode = std::uint8_t{wire::kServiceRc} + std::uint8_t{wire::kSendOnly};
        header.dest_qp = dest_qp;
        std::array<std::byte, kPayload> payload{};
        rte_mbuf* frame = nullptr;
        EXPECT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        const MemoryPiece piece{.direct = payload.data(), .length_bytes = kPayload};
        const std::size_t length = wire::build_frame(wire::make_path(spec), header, {&piece, 1},
                                                     {rte_pktmbuf_mtod(frame, std::byte*), kFrameRoomBytes});
        EXPECT_NE(length, 0U);
        frame->data_len = static_cast<std::uint16_t>(length);
        frame->pkt_len = static_cast<std::uint32_t>(length);
        return frame;
    }
    /// The port, told the time as a worker does at the beginning of a round.
    TimedPort& at(std::uint32_t port) {
        wire.port(port).set_time(0, now);
        return wire.port(port);
    }
    bool send(std::uint32_t from, std::uint32_t to, std::uint8_t traffic_class = wire::kEct0,
              std::uint32_t worker = 0) {
        rte_mbuf* frame = make_frame(from, to, traffic_class);
        if (at(from).tx_burst(worker, &frame, 1) == 1) {
            return true;
        }
        free_frames({&frame, 1});
        return false;
    }
    rte_mbuf* receive(std::uint32_t port, std::uint32_t worker = 0) {
        rte_mbuf* frame = nullptr;
        return at(port).rx_burst(worker, &frame, 1) == 1 ? frame : nullptr;
    }
    /// Takes what there is at a port now; returns how many frames, counts those with CE.
    std::uint32_t drain(std::uint32_t port) {
        std::uint32_t count = 0;
        for (rte_mbuf* frame = receive(port); frame != nullptr; frame = receive(port)) {
            ++count;
            wire::PacketView view;
            EXPECT_EQ(wire::parse_frame(frame_bytes(frame), view), wire::ParseError::kNone);
            marked += (view.traffic_class & wire::kEcnMask) == wire::kEcnCe ? 1 : 0;
            free_frames({&frame, 1});
        }
        return count;
    }
    /// Lets time go on until nothing is on its way; returns how many frames came out at `port`.
    std::uint32_t finish(std::uint32_t port) {
        std::uint32_t count = drain(port);
        while (wire.port(port).next_event(0) != kNever) {
            now = std::max(now, wire.port(port).next_event(0));
            count += drain(port);
        }
        return count;
    }

    TimeNs now = 1'000'000;
    abi::DaemonState state{};
    Steering steering;
    Fabric fabric;
    EmulatedWire wire;
    std::uint32_t marked = 0;
};

class EmulatedWireTest : public testing::Test {
  public:
    EmulatedWireTest() : before_(rte_mempool_avail_count(rig::frame_pool())) {}
    ~EmulatedWireTest() override {
        EXPECT_EQ(rte_mempool_avail_count(rig::frame_pool()), before_) << "frames leaked";
    }

  private:
    unsigned before_ = 0;
};

TEST_F(EmulatedWireTest, AFrameTakesItsTimeOnBothLinks) {
    Emulated lab;
    EXPECT_TRUE(lab.wire.port(0).has_events(0));
    EXPECT_EQ(lab.wire.port(0).next_event(0), kNever);
    ASSERT_TRUE(lab.send(0, 2));
    const std::uint64_t bytes = lab.wire.view(0).sent_bytes;
    EXPECT_GT(bytes, kPayload);
    const TimeNs due = lab.now + 2 * (bytes * 8'000'000'000 / kRate + kDelay);
    while (lab.wire.port(2).next_event(0) < due) {
        lab.now = lab.wire.port(2).next_event(0);
        EXPECT_EQ(lab.receive(2), nullptr);
    }
    EXPECT_EQ(lab.wire.port(2).next_event(0), due);
    lab.now = due - 1;
    EXPECT_EQ(lab.receive(2), nullptr);
    lab.now = due;
    EXPECT_EQ(lab.drain(2), 1U);
    EXPECT_EQ(lab.wire.port(2).next_event(0), kNever);
    EXPECT_EQ(lab.wire.view(2).counters.tx_bytes, bytes);
}

// A worker sleeps until next_event(): what was delivered to a port that it has looked at already must not
// wait there for another frame.
TEST_F(EmulatedWireTest, WhatAnotherPortsReceiveDeliveredIsLookedForAtOnce) {
    Emulated lab;
    ASSERT_TRUE(lab.send(1, 0));
    EXPECT_EQ(lab.receive(0), nullptr);
    lab.now += 10'000'000;
    EXPECT_EQ(lab.receive(2), nullptr);  // lets the network run
    EXPECT_LE(lab.wire.port(0).next_event(0), lab.now);
    EXPECT_EQ(lab.drain(0), 1U);
    EXPECT_EQ(lab.wire.port(0).next_event(0), kNever);
}

TEST_F(EmulatedWireTest, MarksWhatMayBeMarkedAboveTheThreshold) {
    const congestion::EcnOptions ecn{2'000, 4'000, congestion::Fraction::one()};
    for (const std::uint8_t traffic_class : {std::uint8_t{wire::kEct0}, std::uint8_t{0}}) {
        Emulated lab(1, 100'000, ecn);
        for (int i = 0; i < 10; ++i) {
            ASSERT_TRUE(lab.send(0, 2, traffic_class));
            ASSERT_TRUE(lab.send(1, 2, traffic_class));
        }
        EXPECT_EQ(lab.finish(2), 20U);
        EXPECT_EQ(lab.wire.view(2).counters.marked, lab.marked);
        EXPECT_EQ(lab.marked != 0, traffic_class == wire::kEct0);
        EXPECT_LT(lab.marked, 20U) << "the first ones find the queue short";
        EXPECT_GT(lab.wire.view(2).counters.most_bytes, 4'000U);
        EXPECT_EQ(lab.wire.view(2).queue_bytes, 0U);
        EXPECT_EQ(lab.wire.view(0).counters.marked, 0U);
    }
}

TEST_F(EmulatedWireTest, DropsAndCountsWhatTheBufferDoesNotHold) {
    Emulated lab(1, 4'000);
    std::uint32_t sent = 0;
    for (int i = 0; i < 12; ++i) {
        sent += lab.send(0, 2) ? 1 : 0;
        sent += lab.send(1, 2) ? 1 : 0;
    }
    EXPECT_EQ(sent, 24U);
    const std::uint32_t came = lab.finish(2);
    const WirePortView view = lab.wire.view(2);
    EXPECT_GT(view.counters.dropped, 0U);
    EXPECT_EQ(came + view.counters.dropped, sent);
    EXPECT_EQ(view.counters.tx_packets, came);
    EXPECT_LE(view.counters.most_bytes, 4'000U);
}

TEST_F(EmulatedWireTest, AnRnicWhosePortIsFullWaitsAndTheOthersDoNot) {
    Emulated lab;
    std::uint32_t sent = 0;
    while (lab.send(0, 2)) {
        ASSERT_LT(++sent, 100U);
    }
    EXPECT_GT(sent, 10U);
    EXPECT_TRUE(lab.send(1, 2));
    EXPECT_EQ(lab.finish(2), sent + 1);
    EXPECT_TRUE(lab.send(0, 2));
    EXPECT_EQ(lab.wire.view(2).counters.dropped, 0U);
}

TEST_F(EmulatedWireTest, FramesOfOtherWorkersGoThroughTheNetwork) {
    Emulated lab(2);
    EXPECT_FALSE(lab.wire.port(0).has_events(1));
    EXPECT_EQ(lab.wire.port(0).next_event(1), kNever);
    ASSERT_TRUE(lab.send(0, 2, wire::kEct0, 1));
    EXPECT_EQ(lab.wire.view(0).sent_packets, 0U);
    EXPECT_EQ(lab.receive(0), nullptr);  // worker 0 takes it over
    EXPECT_EQ(lab.wire.view(0).sent_packets, 1U);
    EXPECT_EQ(lab.finish(2), 1U);
    rte_mbuf* odd = Emulated::make_frame(0, 2, 0, 5);  // for a QP of worker 1
    ASSERT_EQ(lab.at(0).tx_burst(0, &odd, 1), 1);
    EXPECT_EQ(lab.finish(2), 0U);
    rte_mbuf* at_its_worker = lab.receive(2, 1);
    EXPECT_EQ(at_its_worker, odd);
    free_frames({&at_its_worker, 1});
}

TEST_F(EmulatedWireTest, OfAnotherWorkersFramesNoneIsLostWhileThePortIsFull) {
    Emulated lab(2);
    std::uint32_t sent = 0;
    for (int i = 0; i < 60; ++i) {
        sent += lab.send(0, 2, wire::kEct0, 1) ? 1 : 0;
    }
    EXPECT_EQ(sent, 60U);
    EXPECT_EQ(lab.finish(2), 60U);
}

TEST_F(EmulatedWireTest, AnRnicThatTakesNothingStopsTheNetwork) {
    Emulated lab;
    // More than its ring holds, and at the end some are in the ring, in the network and between the two.
    std::uint32_t sent = 0;
    while (lab.wire.view(2).counters.tx_packets < Fabric::kRingFrames + 8) {
        sent += lab.send(0, 2) ? 1 : 0;
        lab.now += 200'000;
        rte_mbuf* none = nullptr;
        ASSERT_EQ(lab.at(1).rx_burst(0, &none, 1), 0);
        if (lab.wire.view(2).counters.tx_packets == Fabric::kRingFrames + 1) {
            break;
        }
        ASSERT_LT(sent, 2 * Fabric::kRingFrames);
    }
    const std::uint64_t gone = lab.wire.view(2).counters.tx_packets;
    lab.now += 1'000'000'000;
    EXPECT_EQ(lab.receive(1), nullptr);
    EXPECT_LE(lab.wire.view(2).counters.tx_packets, gone + 1);
    EXPECT_EQ(lab.wire.view(2).counters.dropped, 0U);
    EXPECT_EQ(lab.finish(2), sent);
    ASSERT_TRUE(lab.send(0, 2));  // what is on its way at the end is freed
}

TEST_F(EmulatedWireTest, UnknownDestinationsAndRuntsDoNotEnterIt) {
    Emulated lab;
    rte_mbuf* elsewhere = Emulated::make_frame(0, 9);
    ASSERT_EQ(lab.at(0).tx_burst(0, &elsewhere, 1), 1);
    rte_mbuf* runt = Emulated::make_frame(0, 2);
    runt->data_len = 5;
    ASSERT_EQ(lab.at(0).tx_burst(0, &runt, 1), 1);
    EXPECT_EQ(lab.fabric.unknown_mac_frames(), 2U);
    EXPECT_EQ(lab.wire.view(0).sent_packets, 0U);
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

TEST_F(EmulatedWireTest, FramesInTheNetworkAreBounded) {
    Emulated lab;
    EmulatedWire::Options options = Emulated::options(100'000, {});
    options.frames = 8;
    EmulatedWire wire(options, lab.fabric, 3, lab.steering);
    for (int i = 0; i < 10; ++i) {
        rte_mbuf* frame = Emulated::make_frame(0, 2);
        ASSERT_EQ(wire.port(0).tx_burst(0, &frame, 1), 1);
    }
    EXPECT_EQ(wire.view(2).counters.dropped, 2U);
    EXPECT_EQ(wire.view(0).sent_packets, 8U);
}

TEST_F(EmulatedWireTest, ALinkThatCannotBeIsRefused) {
    Emulated lab;
    EmulatedWire::Options options = Emulated::options(100'000, {});
    options.link.rate = 1;
    EXPECT_THROW(EmulatedWire(options, lab.fabric, 3, lab.steering), EalError);
}

}  // namespace
}  // namespace urnic::dataplane
