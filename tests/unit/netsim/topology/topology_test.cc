#include "netsim/topology/topology.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "netsim/topology/routes.h"

namespace urnic::netsim {
namespace {

constexpr LinkSpec kEdge{10'000'000'000, 1'000};
constexpr LinkSpec kTrunk{40'000'000'000, 2'000};

std::vector<PortIndex> ways(const Routes& routes, NodeIndex from, NodeIndex to) {
    const auto span = routes.next(from, to);
    return {span.begin(), span.end()};
}

TEST(Topology, WellKnownOnesAreWhatTheirNamesSay) {
    const Topology one = star(5, kEdge);
    EXPECT_EQ(problem_of(one), "");
    EXPECT_EQ(one.hosts().size(), 5U);
    EXPECT_EQ(one.links.size(), 5U);

    const Topology two = dumbbell(3, kEdge, kTrunk);
    EXPECT_EQ(problem_of(two), "");
    EXPECT_EQ(two.hosts().size(), 6U);
    EXPECT_EQ(two.links.size(), 7U);
    EXPECT_NE(two.find("h6"), kNoNode);
    EXPECT_EQ(two.find("h7"), kNoNode);

    const Topology row = parking_lot(4, 2, kEdge, kTrunk);
    EXPECT_EQ(problem_of(row), "");
    EXPECT_EQ(row.links.size(), 8U + 3U);
    const Routes along(row);
    // h1 is at s1 and h8 at s4: three trunks between them.
    NodeIndex at = row.find("s1");
    for (const char* name : {"s2", "s3", "s4", "h8"}) {
        ASSERT_EQ(along.next(at, row.find("h8")).size(), 1U);
        at = along.ports(at)[along.next(at, row.find("h8"))[0]].neighbour;
        EXPECT_EQ(row.nodes[at].name, name);
    }

    const Topology fabric = leaf_spine(4, 3, 2, kEdge, kTrunk);
    EXPECT_EQ(problem_of(fabric), "");
    EXPECT_EQ(fabric.hosts().size(), 8U);
    EXPECT_EQ(fabric.links.size(), 8U + 12U);
    const Routes routes(fabric);
    EXPECT_EQ(ways(routes, fabric.find("s1"), fabric.find("h3")).size(), 3U) << "one by each spine";
    EXPECT_EQ(ways(routes, fabric.find("s1"), fabric.find("h2")).size(), 1U) << "the host is here";
    EXPECT_EQ(ways(routes, fabric.find("s5"), fabric.find("h3")).size(), 1U);
    EXPECT_TRUE(ways(routes, fabric.find("h3"), fabric.find("h3")).empty());
}

TEST(Topology, SaysWhatIsWrong) {
    struct Case {
        const char* says;
        void (*spoil)(Topology&);
    };
    const std::vector<Case> cases = {
        {"host \"h2\" has no link", [](Topology& t) { t.links.pop_back(); }},
        {"host \"h1\" has 2 links", [](Topology& t) { t.connect(t.find("h1"), t.add_switch("s2"), kEdge); }},
        {"between \"s1\" and \"h1\" is there twice",
         [](Topology& t) { t.connect(t.find("s1"), t.find("h1"), kEdge); }},
        {"\"s1\" has a link to itself", [](Topology& t) { t.connect(0, 0, kEdge); }},
        {"two nodes are called \"h1\"", [](Topology& t) { (void)t.add_switch("h1"); }},
        {"has no name", [](Topology& t) { (void)t.add_switch(""); }},
        {"does not exist", [](Topology& t) { t.connect(0, 77, kEdge); }},
        {"joins two hosts", [](Topology& t) { t.connect(1, 2, kEdge); }},
        {"no way from host \"h1\" to host \"h3\"",
         [](Topology& t) { t.connect(t.add_switch("s2"), t.add_host("h3"), kEdge); }},
        {"a rate of 0 bit/s", [](Topology& t) { t.links[0].spec.rate = 0; }},
        {"a rate of 1099511627776 bit/s", [](Topology& t) { t.links[0].spec.rate = kMaxRate + 1; }},
        {"a delay of 1000000001 ns", [](Topology& t) { t.links[1].spec.delay_ns = kMaxLinkDelayNs + 1; }},
        {"two hosts or more, this one 0", [](Topology& t) { t = {}; }},
        {"there may be 1024", [](Topology& t) { t = star(1024, kEdge); }},
    };
    for (const Case& each : cases) {
        Topology topology = star(2, kEdge);
        ASSERT_EQ(problem_of(topology), "");
        each.spoil(topology);
        EXPECT_NE(problem_of(topology).find(each.says), std::string::npos)
            << each.says << " is not in: " << problem_of(topology);
    }
}

Topology ring(std::uint32_t switches) {
    Topology topology = parking_lot(switches, 1, kEdge, kTrunk);
    topology.connect(0, switches - 1, kTrunk);
    return topology;
}

// In a ring of three every switch is a neighbour of every other: no frame continues over a second trunk.
TEST(Topology, ALoopOfWaysIsRefusedAndManyWaysAreNot) {
    EXPECT_EQ(problem_of(ring(3)), "");
    for (const std::uint32_t switches : {4U, 5U, 9U}) {
        EXPECT_NE(problem_of(ring(switches)).find("form a loop over s"), std::string::npos)
            << problem_of(ring(switches));
    }
    EXPECT_EQ(problem_of(leaf_spine(8, 4, 2, kEdge, kTrunk)), "");
}

TEST(Ecmp, FlowsSpreadBySourcePortAndKeepTheirWay) {
    FlowKey key;
    key.source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1};
    key.destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    key.destination_port = 4791;
    constexpr std::uint32_t kWays = 4;
    constexpr std::uint32_t kFlows = 4096;
    std::map<std::uint32_t, std::uint32_t> taken;
    std::uint32_t alike = 0;
    for (std::uint32_t i = 0; i < kFlows; ++i) {
        key.source_port = static_cast<std::uint16_t>(0xc000 + i);
        const std::uint32_t choice = ecmp_choice(flow_hash(key), 7, 1, kWays);
        ASSERT_LT(choice, kWays);
        ASSERT_EQ(choice, ecmp_choice(flow_hash(key), 7, 1, kWays));
        ++taken[choice];
        alike += choice == ecmp_choice(flow_hash(key), 8, 1, kWays) ? 1 : 0;
    }
    // Six standard deviations of a binomial distribution.
    for (const auto& [way, flows] : taken) {
        EXPECT_NEAR(flows, kFlows / kWays, 170) << way;
    }
    EXPECT_NEAR(alike, kFlows / kWays, 170) << "two switches choose alike";
}

TEST(Ecmp, EveryPartOfTheFiveTupleCounts) {
    const FlowKey key;
    std::set<std::uint64_t> hashes = {flow_hash(key)};
    FlowKey other = key;
    other.source[15] = 1;
    hashes.insert(flow_hash(other));
    other = key;
    other.destination[15] = 1;
    hashes.insert(flow_hash(other));
    other = key;
    other.protocol = 6;
    hashes.insert(flow_hash(other));
    other = key;
    other.source_port = 1;
    hashes.insert(flow_hash(other));
    other = key;
    other.destination_port = 1;
    hashes.insert(flow_hash(other));
    EXPECT_EQ(hashes.size(), 6U);
}

}  // namespace
}  // namespace urnic::netsim
