// Packets of InfiniBand between RNICs through an emulated subnet: their time, their VL, groups, and RNICs
// that take nothing.
#include "dataplane/wire/emulated_subnet.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "dataplane/handoff/key_violation_inbox.h"
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

TEST_F(EmulatedSubnetTest, TheWayIsThatOfTheTables) {
    const std::vector<std::string>& trunks = subnet_->trunks();
    const auto trunk = [&](const char* name) {
        return static_cast<std::uint32_t>(4 +
                                          (std::find(trunks.begin(), trunks.end(), name) - trunks.begin()));
    };
    const auto way = [&](std::uint16_t dlid) {
        rte_mbuf* frame = frame_to(dlid, 0);
        const std::vector<std::uint32_t> ports = subnet_->way(0, frame_bytes(frame));
        free_frames({&frame, 1});
        return ports;
    };
    using Ports = std::vector<std::uint32_t>;
    EXPECT_EQ(way(2), Ports{1});
    EXPECT_EQ(way(4), (Ports{trunk("s1>s2"), 3}));
    EXPECT_EQ(way(1), Ports{}) << "its own";
    EXPECT_EQ(way(0x99), Ports{}) << "of nobody";
    EXPECT_EQ(way(0xc001), Ports{}) << "a group";
    EXPECT_EQ(subnet_->way(0, {}), Ports{}) << "a front that is cut";
    // Both switches send LID 4 to each other.
    const netsim::NodeIndex second = subnet_->switches()[1];
    const auto of_second = subnet_->network().routes().ports(second);
    std::uint8_t back = 1;
    while (of_second[back - 1U].neighbour != subnet_->switches()[0]) {
        ++back;
    }
    std::vector<std::uint8_t> ports(64, back);
    subnet_->set_linear(second, 0, ports);
    EXPECT_EQ(way(4), Ports{}) << "a loop";
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

/// What a subnet manager sets: urnic0 and urnic1 are at ports 1 and 2 of s1, urnic2 and urnic3 at those of
/// s2, and port 3 of each leads to the other.
class RuledSubnetTest : public EmulatedSubnetTest {
  protected:
    RuledSubnetTest() {
        Options ruled = options();
        ruled.has_external_sm = true;
        subnet_.reset();
        subnet_ = std::make_unique<EmulatedSubnet>(ruled, *wire_, handoff_);
        s1_ = subnet_->switches().at(0);
        s2_ = subnet_->switches().at(1);
        set_time(1'000);
        for (std::uint32_t rnic = 0; rnic < 4; ++rnic) {
            subnet_->set_lid(rnic, static_cast<netsim::Lid>(rnic + 1), 0);
            subnet_->set_state(subnet_->node_of(rnic), 1, netsim::IbPortState::kActive);
        }
        const std::uint8_t near[] = {255, 1, 2, 3, 3};
        const std::uint8_t far[] = {255, 3, 3, 1, 2};
        subnet_->set_linear(s1_, 0, near);
        subnet_->set_linear(s2_, 0, far);
        for (const netsim::NodeIndex node : {s1_, s2_}) {
            for (const netsim::IbPortNumber port : {1, 2, 3}) {
                subnet_->set_state(node, port, netsim::IbPortState::kActive);
            }
        }
        set_time(now_ = 1'000'000);
    }
    using Options = EmulatedSubnet::Options;
    /// Sends one and returns the VLs of what came.
    std::vector<int> carry(std::uint32_t from, std::uint32_t to, std::uint8_t sl = 0) {
        EXPECT_TRUE(send(from, static_cast<std::uint16_t>(to + 1), sl));
        set_time(now_ += 1'000'000);
        return take(to);
    }
    [[nodiscard]] const netsim::IbPortCounters& counters(netsim::NodeIndex at,
                                                         netsim::IbPortNumber port) const {
        return subnet_->network().port(at, port).counters();
    }
    void set_pkeys(netsim::NodeIndex at, netsim::IbPortNumber port, std::vector<std::uint16_t> pkeys) {
        subnet_->exchange_pkeys(at, port, pkeys);
    }

    netsim::NodeIndex s1_ = 0;
    netsim::NodeIndex s2_ = 0;
    TimeNs now_ = 0;
};

TEST_F(RuledSubnetTest, PkeysAreEnforcedAndToldOf) {
    EXPECT_EQ(carry(0, 2), Vls{0});
    set_pkeys(s2_, 1, {0x8012, 0x7fff});
    EXPECT_EQ(carry(0, 2), Vls{0}) << "nothing is enforced";
    subnet_->set_port(s2_, 1, {.operational_vls = 8, .enforces_pkey_out = true});
    EXPECT_EQ(carry(0, 2), Vls{0}) << "a full member's packet to a limited one";
    set_pkeys(s2_, 1, {0x8012});
    EXPECT_EQ(carry(0, 2), Vls{});
    EXPECT_EQ(counters(s2_, 1).xmit_constraint_errors, 1U);
    EXPECT_FALSE(subnet_->pkey_violations(s1_).take().has_value());
    const auto violation = subnet_->pkey_violations(s2_).take();
    ASSERT_TRUE(violation.has_value());
    EXPECT_EQ(violation->trap_number, 259);
    EXPECT_EQ(violation->switch_port, 1);
    EXPECT_EQ(violation->details.lid_addr1, 1);
    EXPECT_EQ(violation->details.lid_addr2, 3);
    EXPECT_EQ(violation->details.key, 0xffffU);
    EXPECT_EQ(violation->details.qp2, 5U);
    EXPECT_EQ(carry(0, 2), Vls{});
    EXPECT_FALSE(subnet_->pkey_violations(s2_).take().has_value()) << "it has not been asked for";
    EXPECT_EQ(carry(2, 0), Vls{0}) << "what comes in there is not looked at";
    subnet_->set_port(s2_, 1, {.operational_vls = 8, .enforces_pkey_in = true});
    subnet_->pkey_violations(s2_).want_next();
    EXPECT_EQ(carry(0, 2), Vls{0});
    EXPECT_EQ(carry(2, 0), Vls{});
    EXPECT_EQ(counters(s2_, 1).rcv_constraint_errors, 1U);
    EXPECT_TRUE(subnet_->pkey_violations(s2_).take().has_value());
}

TEST_F(RuledSubnetTest, SlsAreMappedAsSet) {
    EXPECT_EQ(carry(0, 2, 3), Vls{3});
    EmulatedSubnet::SlToVl map{0, 1, 2, 5, 4};
    subnet_->set_sl_to_vl(s2_, 3, 1, map);
    EXPECT_EQ(carry(0, 2, 3), Vls{5}) << "on the last link";
    EXPECT_EQ(carry(0, 3, 3), Vls{3}) << "by another port";
    map[3] = 15;
    subnet_->set_sl_to_vl(s1_, 1, 3, map);
    EXPECT_EQ(carry(0, 2, 3), Vls{});
    EXPECT_EQ(counters(s1_, 1).rcv_switch_relay_errors, 1U);
    subnet_->set_sl_to_vl(subnet_->node_of(1), 0, 1, map);
    EXPECT_EQ(carry(1, 2, 3), Vls{});
    EXPECT_EQ(counters(subnet_->node_of(1), 1).xmit_discards, 1U);
    EXPECT_EQ(carry(1, 2, 4), Vls{4});
    // A VL that is not in use is none.
    subnet_->set_port(s2_, 1, {.operational_vls = 4});
    EXPECT_EQ(carry(1, 2, 4), Vls{});
    EXPECT_EQ(carry(1, 2, 2), Vls{2});
}

/// Two senders share a link as the table says, and what no table has does not go.
TEST_F(RuledSubnetTest, VlsShareALinkAsSet) {
    constexpr std::uint8_t kPacketBlocks = 17;  // LRH, BTH, DETH, 1024, ICRC, VCRC
    const auto share = [&](std::uint8_t weight) {
        EmulatedSubnet::VlArbitration tables;
        tables.low[0] = {0, kPacketBlocks};
        tables.low[1] = {1, weight};
        subnet_->set_vl_arbitration(s1_, 3, tables);
        std::array<std::size_t, 2> came{};
        for (int round = 0; round < 2'000; ++round) {
            while (send(0, 3, 0)) {
            }
            while (send(1, 4, 1)) {
            }
            set_time(now_ += 20'000);
            came[0] += take(2).size();
            came[1] += take(3).size();
        }
        for (int round = 0; round < 1'000; ++round) {  // what is on its way
            set_time(now_ += 1'000'000);
            (void)take(2);
            (void)take(3);
        }
        return static_cast<double>(came[1]) / static_cast<double>(came[0]);
    };
    EXPECT_NEAR(share(kPacketBlocks), 1.0, 0.1);
    EXPECT_NEAR(share(4 * kPacketBlocks), 4.0, 0.4);
    EXPECT_EQ(carry(1, 3, 2), Vls{}) << "VL 2 is in no table";
    EmulatedSubnet::VlArbitration tables;
    tables.high[0] = {2, 1};
    subnet_->set_vl_arbitration(s1_, 3, tables);
    set_time(now_ += 1'000'000);
    EXPECT_EQ(take(3), Vls{2}) << "what has waited goes";
}

}  // namespace
}  // namespace urnic::dataplane
