// The in-process wire, the handoff between workers, and DPDK ports, without QPs.
#include "dataplane/wire/in_process_switch.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>
#include <cstring>

#include "dataplane/port/dpdk_port.h"
#include "dataplane/port/frame_pool.h"
#include "os/setup_error.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

constexpr wire::Mac kMacA = {2, 0, 0, 0, 0, 0xa};
constexpr wire::Mac kMacB = {2, 0, 0, 0, 0, 0xb};
constexpr wire::Mac kMacElsewhere = {2, 0, 0, 0, 0, 0xc};
constexpr wire::Gid kGidA = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr wire::Gid kGidB = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};

/// A RoCEv2 frame for a QP at `to`.
rte_mbuf* make_frame(const wire::Mac& to, std::uint32_t dest_qp) {
    wire::PathSpec spec;
    spec.src_mac = kMacA;
    spec.dst_mac = to;
    spec.src_gid = kGidA;
    spec.dst_gid = kGidB;
    wire::PacketHeader header;
    header.opcode = std::uint8_t{wire::kServiceRc} + std::uint8_t{wire::kSendOnly};
    header.dest_qp = dest_qp;
    rte_mbuf* frame = nullptr;
    EXPECT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
    const std::size_t length = wire::build_frame(wire::make_path(spec), header, {},
                                                 {rte_pktmbuf_mtod(frame, std::byte*), kFrameRoomBytes});
    EXPECT_NE(length, 0U);
    frame->data_len = static_cast<std::uint16_t>(length);
    frame->pkt_len = static_cast<std::uint32_t>(length);
    return frame;
}

unsigned free_frame_count() { return rte_mempool_avail_count(rig::frame_pool()); }

struct Wire {
    explicit Wire(std::uint32_t workers)
        : handoff(state, workers), local_switch({{kMacA, {kGidA, {}}}, {kMacB, {kGidB, {}}}}, handoff) {}
    bool send(std::uint32_t worker, rte_mbuf* frame) {
        return local_switch.port(0).tx_burst(worker, &frame, 1) == 1;
    }
    rte_mbuf* receive(std::uint32_t port, std::uint32_t worker) {
        rte_mbuf* frame = nullptr;
        return local_switch.port(port).rx_burst(worker, &frame, 1) == 1 ? frame : nullptr;
    }
    abi::DaemonState state{};
    WorkerHandoff handoff;
    InProcessSwitch local_switch;
};

class InProcessSwitchTest : public testing::Test {
  public:
    InProcessSwitchTest() : free_before_(free_frame_count()) {}
    ~InProcessSwitchTest() override { EXPECT_EQ(free_frame_count(), free_before_) << "frames leaked"; }

  private:
    unsigned free_before_ = 0;
};

TEST_F(InProcessSwitchTest, CarriesFramesByDestinationMac) {
    Wire wire(1);
    rte_mbuf* const to_b = make_frame(kMacB, 5);
    rte_mbuf* const to_self = make_frame(kMacA, 5);
    ASSERT_TRUE(wire.send(0, to_b));
    ASSERT_TRUE(wire.send(0, to_self));
    rte_mbuf* at_b = wire.receive(1, 0);
    rte_mbuf* at_a = wire.receive(0, 0);
    EXPECT_EQ(at_b, to_b);
    EXPECT_EQ(at_a, to_self);
    EXPECT_EQ(wire.receive(0, 0), nullptr);
    EXPECT_EQ(wire.receive(1, 0), nullptr);
    free_frames({&at_a, 1});
    free_frames({&at_b, 1});
}

TEST_F(InProcessSwitchTest, DropsAndCountsWhatNobodyAnswersTo) {
    Wire wire(1);
    std::array<rte_mbuf*, 3> frames = {make_frame(kMacElsewhere, 5), make_frame(kMacB, 5),
                                       make_frame(kMacElsewhere, 5)};
    rte_mbuf* good = frames[1];
    EXPECT_EQ(wire.local_switch.port(0).tx_burst(0, frames.data(), 3), 3);
    rte_mbuf* runt = make_frame(kMacB, 5);
    runt->data_len = 13;
    EXPECT_TRUE(wire.send(0, runt));
    EXPECT_EQ(wire.local_switch.unknown_mac_frames(), 3U);
    EXPECT_EQ(wire.receive(1, 0), good);
    EXPECT_EQ(wire.receive(1, 0), nullptr);
    free_frames({&good, 1});
}

TEST_F(InProcessSwitchTest, AFullPortTakesNoMoreAndLosesNothing) {
    Wire wire(1);
    for (std::uint32_t i = 0; i < InProcessSwitch::kRingFrames; ++i) {
        ASSERT_TRUE(wire.send(0, make_frame(kMacB, i)));
    }
    std::array<rte_mbuf*, 2> more = {make_frame(kMacB, 1000), make_frame(kMacB, 1001)};
    EXPECT_EQ(wire.local_switch.port(0).tx_burst(0, more.data(), 2), 0);
    for (std::uint32_t i = 0; i < InProcessSwitch::kRingFrames; ++i) {
        rte_mbuf* frame = wire.receive(1, 0);
        ASSERT_NE(frame, nullptr);
        EXPECT_EQ(wire::peek_dest_qp(frame_bytes(frame)), i);
        free_frames({&frame, 1});
    }
    EXPECT_EQ(wire.local_switch.port(0).tx_burst(0, more.data(), 2), 2);
    // What is still on the wire at its end is freed with it.
}

TEST_F(InProcessSwitchTest, SteersToTheWorkerOfTheQp) {
    Wire wire(3);
    for (const std::uint32_t qp_num : {7U, 0xffffffU, 2U}) {
        ASSERT_TRUE(wire.send(1, make_frame(kMacB, qp_num)));
        for (std::uint32_t worker = 0; worker < 3; ++worker) {
            rte_mbuf* frame = wire.receive(1, worker);
            EXPECT_EQ(frame != nullptr, worker == qp_num % 3) << qp_num;
            if (frame != nullptr) {
                free_frames({&frame, 1});
            }
        }
    }
}

TEST_F(InProcessSwitchTest, ASenderWithAFullRingDoesNotStarveAnother) {
    Wire wire(2);
    for (std::uint32_t i = 0; i < InProcessSwitch::kRingFrames; ++i) {
        ASSERT_TRUE(wire.send(0, make_frame(kMacB, 2 * i)));
    }
    rte_mbuf* const late = make_frame(kMacB, 4);
    ASSERT_TRUE(wire.send(1, late));
    bool found = false;
    for (int i = 0; i < 4; ++i) {
        rte_mbuf* frame = wire.receive(1, 0);
        ASSERT_NE(frame, nullptr);
        found = found || frame == late;
        free_frames({&frame, 1});
    }
    EXPECT_TRUE(found);
}

TEST_F(InProcessSwitchTest, ResolvesTheGidsOfItsPorts) {
    Wire wire(1);
    EXPECT_EQ(wire.local_switch.resolve(kGidA), kMacA);
    EXPECT_EQ(wire.local_switch.resolve(kGidB), kMacB);
    EXPECT_EQ(wire.local_switch.resolve(wire::Gid{}), std::nullopt);
    wire::Gid other = kGidB;
    other[15] = 9;
    EXPECT_EQ(wire.local_switch.resolve(other), std::nullopt);
}

TEST_F(InProcessSwitchTest, HandoverKeepsOrderAndRefusesWhenFull) {
    abi::DaemonState state{};
    WorkerHandoff handoff(state, 2);
    for (std::uint32_t i = 0; i < WorkerHandoff::kRingFrames; ++i) {
        ASSERT_TRUE(handoff.enqueue(0, 1, {make_frame(kMacB, i), i % 3}));
    }
    rte_mbuf* refused = make_frame(kMacB, 1);
    EXPECT_FALSE(handoff.enqueue(0, 1, {refused, 0}));
    free_frames({&refused, 1});
    HandoffFrame taken;
    EXPECT_EQ(handoff.dequeue(0, &taken, 1), 0U);
    for (std::uint32_t i = 0; i < 5; ++i) {
        ASSERT_EQ(handoff.dequeue(1, &taken, 1), 1U);
        EXPECT_EQ(wire::peek_dest_qp(frame_bytes(taken.frame)), i);
        EXPECT_EQ(taken.device, i % 3);
        free_frames({&taken.frame, 1});
    }
}

TEST_F(InProcessSwitchTest, OnlyASleepingWorkerIsWoken) {
    abi::DaemonState state{};
    WorkerWakeup wakeup(state, 2);
    eventfd_t count = 0;
    wakeup.wake(1);
    EXPECT_NE(eventfd_read(wakeup.wake_fd(1), &count), 0);
    wakeup.announce_sleep(1);
    wakeup.wake(0);
    wakeup.wake(1);
    EXPECT_EQ(eventfd_read(wakeup.wake_fd(1), &count), 0);
    EXPECT_NE(eventfd_read(wakeup.wake_fd(0), &count), 0);
    wakeup.announce_awake(1);
    wakeup.wake(1);
    EXPECT_NE(eventfd_read(wakeup.wake_fd(1), &count), 0);
}

TEST(DpdkPortTest, SendsAndReceivesThroughAnyEthernetDevice) {
    rte_mempool* const pool = rig::frame_pool();
    DpdkPort port({.name = "net_ring0", .frames = pool});
    EXPECT_TRUE(port.must_be_polled(0));
    EXPECT_TRUE(port.link_up());
    rte_mbuf* const sent = make_frame(kMacB, 12);
    rte_mbuf* frame = sent;
    ASSERT_EQ(port.tx_burst(0, &frame, 1), 1);
    frame = nullptr;
    ASSERT_EQ(port.rx_burst(0, &frame, 1), 1);
    EXPECT_EQ(frame, sent);
    free_frames({&frame, 1});
    EXPECT_EQ(port.rx_burst(1, &frame, 1), 0) << "a queue that the device does not have";
}

TEST(DpdkPortTest, AllocatesWhatItReceivesFromThePool) {
    DpdkPort port({.name = "net_null0", .promiscuous = true, .frames = rig::frame_pool()});
    std::array<rte_mbuf*, 4> frames{};
    ASSERT_EQ(port.rx_burst(0, frames.data(), 4), 4);
    EXPECT_EQ(frames[0]->pool, rig::frame_pool());
    EXPECT_EQ(port.tx_burst(0, frames.data(), 4), 4);
}

std::string error_of(const DpdkPortConfig& config) {
    try {
        DpdkPort port(config);
    } catch (const SetupError& error) {
        return error.what();
    }
    return "";
}

TEST(DpdkPortTest, SaysWhatIsWrong) {
    rte_mempool* const pool = rig::frame_pool();
    const std::string unknown = error_of({.name = "0000:99:00.0", .hint = "Plug it in", .frames = pool});
    EXPECT_NE(unknown.find("0000:99:00.0"), std::string::npos) << unknown;
    EXPECT_NE(unknown.find("Plug it in"), std::string::npos) << unknown;
    const std::string few = error_of({.name = "net_null1", .num_queues = 2000, .frames = pool});
    EXPECT_NE(few.find("transmit queues"), std::string::npos) << few;
}

}  // namespace
}  // namespace urnic::dataplane
