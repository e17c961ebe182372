// Packets of InfiniBand between RNICs through an emulated subnet: their time, their VL, groups, and RNICs
// that take nothing.
#include "dataplane/wire/emulated_subnet.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/in_process_switch.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/multicast.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

constexpr std::uint16_t kSubnetGroup = 0xc007;
constexpr netsim::LinkSpec kSubnetLink{.rate = 1'000'000'000, .delay_ns = 1'000};

class EmulatedSubnetTest : public testing::Test {
  protected:
    static std::vector<InProcessSwitch::PortSpec> specs() {
        std::vector<InProcessSwitch::PortSpec> made(4);
        for (std::size_t i = 0; i < made.size(); ++i) {
            made[i].is_infiniband = true;
            made[i].lid = static_cast<std::uint16_t>(i + 1);
        }
        return made;
    }
    static EmulatedSubnet::Options options() {
        EmulatedSubnet::Options made;
        made.topology = netsim::dumbbell(2, kSubnetLink, kSubnetLink);
        made.lids = {1, 2, 3, 4};
        made.pool = rig::frame_pool();
        made.frames = 512;
        return made;
    }
    EmulatedSubnetTest()
        : before_(rte_mempool_avail_count(rig::frame_pool())),
          wire_(std::make_unique<InProcessSwitch>(specs(), handoff_)),
          subnet_(std::make_unique<EmulatedSubnet>(options(), *wire_, handoff_)) {}
    ~EmulatedSubnetTest() override {
        subnet_.reset();
        wire_.reset();
        EXPECT_EQ(rte_mempool_avail_count(rig::frame_pool()), before_) << "frames leaked";
    }

    static rte_mbuf* frame_to(std::uint16_t dlid, std::uint8_t sl) {
        wire::PathSpec spec;
        spec.is_infiniband = true;
        spec.slid = 1;
        spec.dlid = dlid;
        spec.sl = sl;
        spec.has_grh = wire::is_multicast_lid(dlid);
        wire::PacketHeader header;
        header.opcode = 0x64;
        header.dest_qp = spec.has_grh ? wire::kMulticastQp : 5;
        std::vector<std::byte> payload(1024);
        const MemoryPiece piece{payload.data(), nullptr, 0, 1024};
        rte_mbuf* frame = nullptr;
        EXPECT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        const std::size_t bytes =
            wire::build_frame(wire::make_path(spec), header, {&piece, 1},
                              {rte_pktmbuf_mtod(frame, std::byte*), wire::kMaxFrameBytes});
        frame->data_len = frame->pkt_len = static_cast<std::uint16_t>(bytes);
        return frame;
    }
    bool send(std::uint32_t from, std::uint16_t dlid, std::uint8_t sl = 0) {
        rte_mbuf* frame = frame_to(dlid, sl);
        if (subnet_->port(from).tx_burst(0, &frame, 1) == 1) {
            return true;
        }
        free_frames({&frame, 1});
        return false;
    }
    void set_time(TimeNs now) {
        for (std::uint32_t port = 0; port < 4; ++port) {
            subnet_->port(port).set_time(0, now);
        }
    }
    /// The VLs of what an RNIC has received.
    std::vector<int> take(std::uint32_t port) {
        std::vector<int> vls;
        rte_mbuf* frame = nullptr;
        while (subnet_->port(port).rx_burst(0, &frame, 1) == 1) {
            wire::PacketView view;
            EXPECT_EQ(wire::parse_ib_frame(frame_bytes(frame), view), wire::ParseError::kNone);
            vls.push_back(wire::peek_link(frame_bytes(frame)).vl);
            free_frames({&frame, 1});
        }
        return vls;
    }

    unsigned before_;
    abi::DaemonState state_{};
    WorkerHandoff handoff_{state_, 1};
    std::unique_ptr<InProcessSwitch> wire_;
    std::unique_ptr<EmulatedSubnet> subnet_;
};

using Vls = std::vector<int>;

TEST_F(EmulatedSubnetTest, APacketTakesItsTimeAndComesOnItsLastVl) {
    set_time(1'000'000);
    ASSERT_TRUE(send(0, 3, 6));
    set_time(1'000'000 + 3 * 8'000);
    EXPECT_EQ(take(2), Vls{});
    set_time(1'000'000 + 3 * 10'000);
    EXPECT_EQ(take(2), Vls{6});
    EXPECT_EQ(subnet_->view(2).counters.tx_packets, 1U);
}

TEST_F(EmulatedSubnetTest, ItsOwnLidAndLidsOfNobody) {
    set_time(1'000'000);
    ASSERT_TRUE(send(0, 1, 6));
    EXPECT_EQ(take(0), Vls{0}) << "it was on no link";
    ASSERT_TRUE(send(0, 0x99));
    set_time(10'000'000);
    EXPECT_EQ(take(1), Vls{});
    EXPECT_EQ(subnet_->view(0).infiniband.rcv_switch_relay_errors, 1U);
}

TEST_F(EmulatedSubnetTest, MembersOfAGroupGetTheirCopies) {
    const std::vector<netsim::NodeIndex> members = {subnet_->node_of(0), subnet_->node_of(1),
                                                    subnet_->node_of(3)};
    subnet_->set_multicast_routes(kSubnetGroup, netsim::find_multicast_routes(subnet_->network(), members));
    const std::uint16_t group = kSubnetGroup;
    for (const std::uint32_t member : {0U, 1U, 3U}) {
        subnet_->port(member).set_multicast_lids({&group, 1});
    }
    set_time(1'000'000);
    ASSERT_TRUE(send(0, kSubnetGroup, 2));
    EXPECT_EQ(take(0), Vls{0});
    set_time(10'000'000);
    EXPECT_EQ(take(1), Vls{2});
    EXPECT_EQ(take(2), Vls{});
    EXPECT_EQ(take(3), Vls{2});
}

// It holds back what is for it, and what is on the same VL; other VLs go on.
TEST_F(EmulatedSubnetTest, AnRnicThatTakesNothingHoldsBackItsSender) {
    TimeNs now = 1'000'000;
    std::uint32_t sent = 0;
    while (send(0, 3, 1)) {
        ++sent;
        set_time(now += 20'000);
        (void)take(0);  // runs the network
        ASSERT_LT(sent, 2'000U);
    }
    EXPECT_GT(sent, InProcessSwitch::kRingFrames);
    ASSERT_TRUE(send(1, 4, 2));
    set_time(now += 1'000'000);
    EXPECT_EQ(take(3), Vls{2});
    EXPECT_GT(subnet_->view(4).infiniband.xmit_wait_ns, 0U) << "s1>s2 has no credit on VL 1";
    std::size_t came = 0;
    for (int round = 0; round < 200; ++round) {
        set_time(now += 1'000'000);
        came += take(2).size();
    }
    EXPECT_EQ(came, sent) << "nothing is lost";
    EXPECT_TRUE(send(0, 3, 1));
}

TEST_F(EmulatedSubnetTest, ALinkThatIsDownCarriesNothing) {
    set_time(1'000'000);
    subnet_->port(2).set_link(0, false);
    EXPECT_EQ(subnet_->view(2).state, netsim::IbPortState::kDown);
    ASSERT_TRUE(send(0, 3));
    set_time(10'000'000);
    EXPECT_EQ(take(2), Vls{});
    EXPECT_EQ(subnet_->view(2).infiniband.xmit_discards, 1U);
    subnet_->port(2).set_link(0, true);
    EXPECT_EQ(subnet_->view(2).state, netsim::IbPortState::kActive);
    ASSERT_TRUE(send(0, 3));
    set_time(20'000'000);
    EXPECT_EQ(take(2).size(), 1U);
    // The trunk's.
    ASSERT_EQ(subnet_->trunks().at(0), "s1>s2");
    subnet_->set_link(4, false);
    ASSERT_TRUE(send(0, 3));
    ASSERT_TRUE(send(0, 2));
    set_time(30'000'000);
    EXPECT_EQ(take(2), Vls{});
    EXPECT_EQ(take(1).size(), 1U);
}

}  // namespace
}  // namespace urnic::dataplane
