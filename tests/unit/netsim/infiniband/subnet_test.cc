// Subnets: forwarding, credits over several hops, lifetimes, loops, links that go down.
#include <gtest/gtest.h>

#include "tests/unit/netsim/infiniband/subnet_lab.h"

namespace urnic::netsim {
namespace {

constexpr std::uint32_t kPacketBytes = 4'096 + 26;
constexpr TimeNs kPacketNs = kPacketBytes * 8;  // on a link of 1 Gbit/s

TEST(IbSubnet, APacketTakesItsTimeOnEachLink) {
    SubnetLab lab(dumbbell(1, kGigabit, kGigabit));
    lab.run();
    lab.now = 1'000'000;
    lab.send(0, lab.lid(1));
    lab.run();
    ASSERT_EQ(lab.arrivals.size(), 1U);
    EXPECT_EQ(lab.arrivals[0].host, lab.hosts[1]);
    EXPECT_EQ(lab.arrivals[0].at, 1'000'000 + 3 * (kPacketNs + 1'000));
}

TEST(IbSubnet, EverybodyReachesEverybodyOnEachTopology) {
    for (const Topology& topology :
         {star(4, kGigabit), dumbbell(2, kGigabit, kGigabit), parking_lot(4, 1, kGigabit, kGigabit),
          leaf_spine(4, 2, 2, kGigabit, kGigabit)}) {
        SubnetLab lab(topology);
        for (std::uint32_t from = 0; from < lab.hosts.size(); ++from) {
            for (std::uint32_t to = 0; to < lab.hosts.size(); ++to) {
                if (from != to) {
                    lab.send(from, lab.lid(to));
                }
            }
        }
        lab.run();
        for (std::uint32_t host = 0; host < lab.hosts.size(); ++host) {
            EXPECT_EQ(lab.arrived_at(host), lab.hosts.size() - 1);
        }
        EXPECT_TRUE(lab.dropped.empty());
    }
}

// Lossless by construction: three senders for one receiver, with buffers of two packets.
TEST(IbSubnet, ACongestedPortLosesNothingAndKeepsOrder) {
    SubnetLab lab(dumbbell(3, kGigabit, kGigabit), SubnetLab::options(2 * credit_blocks(kPacketBytes)));
    for (std::uint32_t i = 0; i < 300; ++i) {
        lab.send(i % 3, lab.lid(3));
    }
    lab.run();
    EXPECT_EQ(lab.arrived_at(3), 300U);
    EXPECT_TRUE(lab.dropped.empty());
    std::map<NodeIndex, std::uint32_t> last;
    for (const SubnetArrival& arrival : lab.arrivals) {
        EXPECT_GT(arrival.number, last[arrival.from]);
        last[arrival.from] = arrival.number;
    }
    EXPECT_GT(lab.sum(&IbPortCounters::xmit_wait_ns), 0U);
}

TEST(IbSubnet, ALinkIsUsedWhollyThoughCreditsTakeTheirTime) {
    SubnetLab lab(star(2, {.rate = 1'000'000'000, .delay_ns = 20'000}), SubnetLab::options(512));
    for (int i = 0; i < 1'000; ++i) {
        lab.send(0, lab.lid(1));
    }
    lab.run();
    const TimeNs took = lab.arrivals.back().at - lab.arrivals.front().at;
    EXPECT_LT(took, 999 * kPacketNs * 101 / 100);
}

// What host 0 sends to a host that takes nothing fills the buffers up to host 0, and what it sends elsewhere
// on the same VL stands behind it; on another VL it does not.
TEST(IbSubnet, TheHeadOfTheLineBlocksItsVlAndNoOther) {
    SubnetLab lab(star(3, kGigabit));
    lab.slow[lab.hosts[1]] = 1;
    for (int i = 0; i < 20; ++i) {
        lab.send(0, lab.lid(1), 0);
    }
    LabPacket& victim = lab.send(0, lab.lid(2), 0);
    LabPacket& other = lab.send(0, lab.lid(2), 1);
    lab.run_until(50'000'000);
    ASSERT_EQ(lab.arrived_at(2), 1U);
    const auto passed = std::find_if(lab.arrivals.begin(), lab.arrivals.end(),
                                     [&](const SubnetArrival& each) { return each.host == lab.hosts[2]; });
    EXPECT_EQ(passed->number, other.number);
    EXPECT_EQ(other.vl, 1);
    EXPECT_EQ(victim.vl, 0);
    const std::uint64_t in_buffer = lab.arrived_at(1);
    EXPECT_EQ(in_buffer, 256 / credit_blocks(kPacketBytes));
    // It takes packets again: everything comes.
    while (lab.arrived_at(1) + lab.arrived_at(2) < 22) {
        const std::size_t before = lab.arrivals.size();
        lab.take(1);
        lab.run_until(lab.now + 1'000'000);
        ASSERT_GT(lab.arrivals.size(), before);
    }
    EXPECT_TRUE(lab.dropped.empty());
}

TEST(IbSubnet, SendersShareALinkByTheWeightsOfTheirVls) {
    SubnetLab lab(dumbbell(2, kGigabit, kGigabit));
    VlArbiter::Table low{};
    low[0] = {0, credit_blocks(kPacketBytes)};
    low[1] = {1, 3 * credit_blocks(kPacketBytes)};
    const NodeIndex s1 = lab.network.topology().find("s1");
    const IbPortNumber trunk = lab.port_to(s1, lab.network.topology().find("s2"));
    lab.network.port(s1, trunk).arbiter().set_table(VlArbiter::Priority::kLow, low);
    for (int i = 0; i < 400; ++i) {
        lab.send(0, lab.lid(2), 0);
        lab.send(1, lab.lid(3), 1);
    }
    lab.run_until(300 * kPacketNs);
    const double ratio = static_cast<double>(lab.arrived_at(3)) / static_cast<double>(lab.arrived_at(2));
    EXPECT_NEAR(ratio, 3.0, 0.3);
}

TEST(IbSubnet, AnSlWithoutAVlIsDroppedAndCounted) {
    SubnetLab lab(star(2, kGigabit));
    IbSwitch& s1 = *lab.network.switch_at(lab.network.topology().find("s1"));
    s1.sl_to_vl(1, 2)[3] = 15;
    s1.sl_to_vl(1, 2)[4] = 6;
    lab.send(0, lab.lid(1), 3);
    lab.send(0, lab.lid(1), 4);
    lab.run();
    ASSERT_EQ(lab.arrivals.size(), 1U);
    EXPECT_EQ(lab.arrivals[0].vl, 6);
    EXPECT_EQ(s1.port(1).counters().rcv_switch_relay_errors, 1U);
    EXPECT_EQ(s1.port(1).buffered_blocks(3), 0U);
}

TEST(IbSubnet, LidsOfNobodyAndPacketsThatWouldGoBack) {
    SubnetLab lab(star(2, kGigabit));
    IbSwitch& s1 = *lab.network.switch_at(lab.network.topology().find("s1"));
    for (const Lid dlid : {Lid{0}, Lid{0x1234}, Lid{0xc001}, kPermissiveLid, lab.lid(0)}) {
        lab.send(0, dlid);
    }
    lab.run();
    EXPECT_TRUE(lab.arrivals.empty());
    EXPECT_EQ(s1.port(1).counters().rcv_switch_relay_errors, 5U);
    EXPECT_EQ(lab.dropped.size(), 5U);
    EXPECT_EQ(s1.port(1).buffered_blocks(0), 0U);
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 1U);
}

// Three switches that send a LID round: what follows it ends, everything else goes on.
TEST(IbSubnet, ALoopEnds) {
    const Topology ring = [] {
        Topology made;
        std::vector<NodeIndex> nodes;
        for (const char* name : {"s1", "s2", "s3"}) {
            nodes.push_back(made.add_switch(name));
        }
        for (std::uint32_t i = 0; i < 3; ++i) {
            made.connect(made.add_host("h" + std::to_string(i)), nodes[i], kGigabit);
        }
        for (std::uint32_t i = 0; i < 3; ++i) {
            made.connect(nodes[i], nodes[(i + 1) % 3], kGigabit);
        }
        return made;
    }();
    IbNetworkOptions options = SubnetLab::options(2 * credit_blocks(kPacketBytes));
    options.port.info.hoq_life = 8;  // 1 ms
    SubnetLab loop(ring, options);
    constexpr Lid kNobody = 0x99;
    for (NodeIndex node = 0; node < 3; ++node) {
        loop.network.switch_at(node)->linear().set(kNobody, loop.port_to(node, (node + 1) % 3));
    }
    // A single one ends by its hops.
    loop.send(0, kNobody);
    loop.run();
    EXPECT_EQ(loop.sum(&IbPortCounters::xmit_discards), 1U);
    EXPECT_EQ(loop.sum(&IbPortCounters::rcv_packets), std::uint64_t{kMostHops} + 1);
    // Many fill all buffers round the ring, which then waits for itself.
    for (int i = 0; i < 60; ++i) {
        loop.send(static_cast<std::uint32_t>(i) % 3, kNobody);
    }
    loop.run();
    EXPECT_EQ(loop.sum(&IbPortCounters::xmit_discards), 61U);
    EXPECT_TRUE(loop.arrivals.empty());
    loop.run_until(loop.now + 1'000'000'000);  // stalled VLs
    for (std::uint32_t host = 0; host < 3; ++host) {
        loop.send(host, loop.lid((host + 1) % 3));
    }
    loop.run();
    EXPECT_EQ(loop.arrivals.size(), 3U);
}

TEST(IbSubnet, WhoWaitsTooLongAtTheHeadIsDiscardedAndTheVlStalls) {
    IbNetworkOptions options = SubnetLab::options(credit_blocks(kPacketBytes));
    options.port.info.hoq_life = 10;  // 4.2 ms
    options.port.info.vl_stall_count = 2;
    SubnetLab lab(star(2, kGigabit), options);
    lab.slow[lab.hosts[1]] = 1;
    IbSwitch& s1 = *lab.network.switch_at(lab.network.topology().find("s1"));
    IbPortInfo patient = options.port.info;
    patient.hoq_life = 20;
    lab.network.port(lab.hosts[0], 1).set_info(patient);
    for (int i = 0; i < 5; ++i) {
        lab.send(0, lab.lid(1));
    }
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 1U);
    EXPECT_EQ(lab.dropped.size(), 4U);
    EXPECT_EQ(s1.port(2).counters().xmit_discards, 4U);
    EXPECT_EQ(s1.port(1).buffered_blocks(0), 0U);
    // Two after their lifetimes, the others at once; then the VL takes nothing for eight lifetimes.
    EXPECT_LT(lab.now, TimeNs{10'000'000});
    lab.take(1);
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 1U);
    lab.run_until(lab.now + 8 * ib_lifetime_ns(10));
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 2U);
}

TEST(IbSubnet, WithoutLifetimesPacketsWaitForEver) {
    IbNetworkOptions options = SubnetLab::options(credit_blocks(kPacketBytes));
    options.port.info.hoq_life = 20;
    options.switches.life_time = 20;
    SubnetLab lab(star(2, kGigabit), options);
    lab.slow[lab.hosts[1]] = 1;
    lab.send(0, lab.lid(1));
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.network.deadline(), kNever);
    lab.now += 100'000'000'000;
    const IbPort& held = lab.network.port(lab.network.topology().find("s1"), 2);
    EXPECT_GE(held.xmit_wait_ns(lab.now), TimeNs{100'000'000'000}) << "the wait goes on";
    lab.take(1);
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 2U);
}

TEST(IbSubnet, AHostHearsOfEachPacketThatLeavesItsPort) {
    IbNetworkOptions options = SubnetLab::options(credit_blocks(kPacketBytes));
    options.port.info.hoq_life = 10;
    SubnetLab lab(star(2, kGigabit), options);
    const NodeIndex host = lab.hosts[0];
    lab.slow[lab.hosts[1]] = 1;
    lab.network.port(lab.network.topology().find("s1"), 2).set_info({.hoq_life = 20});
    lab.run();
    lab.send(0, lab.lid(1));
    EXPECT_EQ(lab.rooms[host], 1) << "it is being sent";
    lab.send(0, lab.lid(1));
    EXPECT_EQ(lab.rooms[host], 1) << "it waits for the one before";
    lab.run();
    EXPECT_EQ(lab.rooms[host], 2);
    for (int i = 0; i < 3; ++i) {
        lab.send(0, lab.lid(1));
    }
    lab.run();
    EXPECT_EQ(lab.rooms[host], 5) << "those that end there for lack of credit count, too";
    EXPECT_GT(lab.network.port(host, 1).counters().xmit_discards, 0U);
}

TEST(IbSubnet, ASwitchsLifetimeEndsWhatHeadOfQueueDoesNot) {
    IbNetworkOptions options = SubnetLab::options(credit_blocks(kPacketBytes));
    options.port.info.hoq_life = 20;
    options.switches.life_time = 10;
    SubnetLab lab(star(2, kGigabit), options);
    lab.slow[lab.hosts[1]] = 1;
    lab.send(0, lab.lid(1));
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 1U);
    EXPECT_EQ(lab.dropped.size(), 1U);
}

TEST(IbSubnet, PkeysAreEnforcedInAndOut) {
    SubnetLab lab(star(2, kGigabit));
    IbSwitch& s1 = *lab.network.switch_at(lab.network.topology().find("s1"));
    s1.port(1).pkeys() = {0x8001};
    IbPortInfo info = s1.port(1).info();
    info.enforces_pkey_in = true;
    s1.port(1).set_info(info);
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(s1.port(1).counters().rcv_constraint_errors, 1U);
    const NodeIndex at = lab.network.topology().find("s1");
    const std::vector<SubnetLab::WrongPkey> once = {{at, 1, 0xffff}};
    EXPECT_EQ(lab.wrong_pkeys, once);
    info.enforces_pkey_in = false;
    info.enforces_pkey_out = true;
    s1.port(1).set_info(info);
    lab.send(1, lab.lid(0));
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(s1.port(1).counters().xmit_constraint_errors, 1U);
    EXPECT_EQ(lab.arrivals.size(), 1U);
    EXPECT_EQ(lab.wrong_pkeys.size(), 2U);
    EXPECT_EQ(lab.wrong_pkeys.back(), once.front());
    EXPECT_EQ(lab.dropped.size(), 2U);
}

TEST(IbSubnet, ALinkThatGoesDownTakesWhatIsOnItAndComesBackWithWholeCredits) {
    SubnetLab lab(dumbbell(1, kGigabit, kGigabit));
    const NodeIndex s1 = lab.network.topology().find("s1");
    const IbPortNumber trunk = lab.port_to(s1, lab.network.topology().find("s2"));
    for (int i = 0; i < 50; ++i) {
        lab.send(0, lab.lid(1));
    }
    lab.run_until(10 * kPacketNs);
    lab.network.enable(lab.now, s1, trunk, false);
    EXPECT_FALSE(lab.network.is_up(s1, trunk));
    lab.run();
    EXPECT_EQ(lab.arrivals.size() + lab.dropped.size(), 50U);
    EXPECT_GT(lab.dropped.size(), 30U);
    EXPECT_EQ(lab.network.port(s1, trunk).counters().link_downed, 1U);
    lab.network.enable(lab.now, s1, trunk, true);
    EXPECT_EQ(lab.network.port(s1, trunk).state(), IbPortState::kInit);
    lab.run();
    const std::size_t before = lab.arrivals.size();
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.arrivals.size(), before) << "in Init no data passes";
    activate_ports(lab.network, lab.now);
    lab.run();
    EXPECT_EQ(lab.network.port(s1, trunk).credits(0), 256U);
    for (int i = 0; i < 50; ++i) {
        lab.send(0, lab.lid(1));
    }
    lab.run();
    EXPECT_EQ(lab.arrivals.size(), before + 50);
}

TEST(IbSubnet, TablesAvoidALinkThatIsDown) {
    SubnetLab lab(leaf_spine(2, 2, 1, kGigabit, kGigabit));
    const NodeIndex leaf = lab.network.topology().find("s1");
    for (const char* spine : {"s3", "s4"}) {
        const IbPortNumber port = lab.port_to(leaf, lab.network.topology().find(spine));
        lab.network.enable(lab.now, leaf, port, false);
        lab.route();
        lab.arrivals.clear();
        lab.send(0, lab.lid(1));
        lab.send(1, lab.lid(0));
        lab.run();
        EXPECT_EQ(lab.arrivals.size(), 2U) << spine;
        lab.network.enable(lab.now, leaf, port, true);
        activate_ports(lab.network, lab.now);
        lab.run();
    }
}

TEST(IbSubnet, AHostThatWasDownWhenRoutesWereMadeIsReachedOnceItIsUp) {
    SubnetLab lab(leaf_spine(2, 2, 1, kGigabit, kGigabit));
    const NodeIndex host = lab.network.topology().hosts()[1];
    lab.network.enable(lab.now, host, 1, false);
    lab.route();
    lab.network.enable(lab.now, host, 1, true);
    activate_ports(lab.network, lab.now);
    lab.run();
    lab.send(0, lab.lid(1));
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 1U);
}

TEST(IbSubnet, TheLidsOfOneHostTakeDifferentWays) {
    SubnetLab lab(leaf_spine(2, 4, 1, kGigabit, kGigabit), SubnetLab::options(), 2);
    EXPECT_EQ(lab.lid(0), 4);
    EXPECT_EQ(lab.lid(1), 8);
    for (Lid path = 0; path < 4; ++path) {
        lab.send(0, static_cast<Lid>(lab.lid(1) + path));
    }
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 4U);
    for (const char* spine : {"s3", "s4", "s5", "s6"}) {
        const NodeIndex node = lab.network.topology().find(spine);
        EXPECT_EQ(lab.network.port(node, 1).counters().rcv_packets, 1U) << spine;
    }
}

TEST(IbSubnet, ManagementIsForTheSwitchAndPassesPortsInInit) {
    SubnetLab lab(star(2, kGigabit));
    const NodeIndex s1 = lab.network.topology().find("s1");
    for (const IbPortNumber port : {IbPortNumber{1}, IbPortNumber{2}}) {
        lab.network.enable(0, s1, port, false);
        lab.network.enable(0, s1, port, true);
    }
    LabPacket& request = lab.packets.emplace_back();
    request.bytes = 290;
    request.dlid = kPermissiveLid;
    request.vl = kManagementVl;
    lab.network.send(0, lab.hosts[0], request);
    lab.run();
    ASSERT_EQ(lab.managed.size(), 1U);
    EXPECT_EQ(lab.managed[0].at, s1);
    EXPECT_EQ(lab.managed[0].ingress, 1);
    // A directed route goes on by the port that the agent names.
    lab.network.send_from_switch(lab.now, s1, 2, request);
    lab.run();
    EXPECT_EQ(lab.arrived_at(1), 1U);
    // By LID, and what the switch's own LID has.
    LabPacket& to_switch = lab.packets.emplace_back();
    to_switch.bytes = 290;
    to_switch.dlid = lab.plan.lids[s1];
    to_switch.vl = kManagementVl;
    lab.network.send(lab.now, lab.hosts[1], to_switch);
    lab.run();
    ASSERT_EQ(lab.managed.size(), 2U);
    EXPECT_EQ(lab.managed[1].ingress, 2);
    to_switch.dlid = lab.lid(0);
    lab.network.send_from_switch(lab.now, s1, kNoIbPort, to_switch);
    lab.run();
    EXPECT_EQ(lab.arrived_at(0), 1U);
}

TEST(IbSubnet, MulticastReachesMembersOnceAndNobodyElse) {
    SubnetLab lab(leaf_spine(3, 2, 2, kGigabit, kGigabit));
    constexpr Lid kGroup = 0xc001;
    const std::vector<NodeIndex> members = {lab.hosts[0], lab.hosts[1], lab.hosts[5]};
    set_multicast_routes(lab.network, kGroup, find_multicast_routes(lab.network, members));
    for (std::uint32_t from = 0; from < lab.hosts.size(); ++from) {
        lab.arrivals.clear();
        lab.send(from, kGroup);
        lab.run();
        for (std::uint32_t host = 0; host < lab.hosts.size(); ++host) {
            const bool is_member = host == 0 || host == 1 || host == 5;
            EXPECT_EQ(lab.arrived_at(host), is_member && host != from ? 1U : 0U) << from << " to " << host;
        }
    }
    for (NodeIndex node = 0; node < lab.network.topology().nodes.size(); ++node) {
        if (const IbSwitch* const at = lab.network.switch_at(node)) {
            for (IbPortNumber port = 1; port <= at->num_ports(); ++port) {
                EXPECT_EQ(at->port(port).buffered_blocks(0), 0U);
            }
        }
    }
}

// A copy that waits keeps the room of the packet; its ports get one by one what there is memory for.
TEST(IbSubnet, MulticastKeepsItsRoomUntilTheLastCopyIsGone) {
    SubnetLab lab(star(4, kGigabit), SubnetLab::options(credit_blocks(kPacketBytes)));
    const NodeIndex s1 = lab.network.topology().find("s1");
    const std::vector<NodeIndex> members = {lab.hosts[1], lab.hosts[2], lab.hosts[3]};
    set_multicast_routes(lab.network, 0xc000, find_multicast_routes(lab.network, members));
    lab.slow[lab.hosts[2]] = 1;
    lab.send(0, 0xc000);
    lab.send(0, 0xc000);
    lab.run_until(10'000'000);
    EXPECT_EQ(lab.arrived_at(1), 2U);
    EXPECT_EQ(lab.arrived_at(3), 2U);
    EXPECT_EQ(lab.arrived_at(2), 1U);
    EXPECT_EQ(lab.network.port(s1, 1).buffered_blocks(0), credit_blocks(kPacketBytes));
    lab.take(2);
    lab.run();
    EXPECT_EQ(lab.arrived_at(2), 2U);
    EXPECT_EQ(lab.network.port(s1, 1).buffered_blocks(0), 0U);
    lab.copies_left = 1;
    lab.take(2);
    lab.send(0, 0xc000);
    lab.run();
    EXPECT_EQ(lab.arrivals.size(), 6U + 2);
    EXPECT_EQ(lab.sum(&IbPortCounters::xmit_discards), 1U);
    EXPECT_EQ(lab.network.port(s1, 1).buffered_blocks(0), 0U);
}

}  // namespace
}  // namespace urnic::netsim
