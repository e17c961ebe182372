// Experiments over InfiniBand's links: LIDs, credits, virtual lanes, and what is told of them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/experiment/outcome.h"

namespace urnic::experiment {
namespace {

constexpr const char* kSubnetStar = R"(
link_layer = "infiniband"
duration_us = 6000
warm_up_us = 1000
sample_us = 20
[topology]
kind = "star"
hosts = 5
rate_gbit = 40
)";

// Four senders into one link of 40 Gbit/s, and a flow beside them that has a link of its own at either end
// and shares one of 100 Gbit/s with them, which is more than both bottlenecks.
constexpr const char* kVictim = R"(
duration_us = 6000
warm_up_us = 2000
sample_us = 20
[topology]
kind = "custom"
rate_gbit = 40
hosts = ["a1", "a2", "a3", "a4", "v", "r", "e"]
switches = ["s1", "s2"]
link = [{between = ["a1", "s1"]}, {between = ["a2", "s1"]}, {between = ["a3", "s1"]}, {between = ["a4", "s1"]},
        {between = ["v", "s1"]}, {between = ["s1", "s2"], rate_gbit = 100}, {between = ["s2", "r"]},
        {between = ["s2", "e"]}]
[congestion]
algorithm = "none"
[[flow]]
name = "a"
from = ["a1", "a2", "a3", "a4"]
to = "r"
[[flow]]
name = "victim"
from = "v"
to = "e"
)";
constexpr std::size_t kVictimFlow = 4;

// LRH, BTH, ICRC and VCRC; every 1024th packet has 16 bytes more.
constexpr double kSubnetEfficiency = 1024.0 / 1050.0;
constexpr double kSubnetLink = 40 * kSubnetEfficiency;

Changes with_flows(const char* flows, const Changes& others = {}) {
    Changes changes = others;
    changes.emplace_back("flow", flows);
    return changes;
}

Changes on_subnet(const Changes& others = {}) {
    Changes changes = {{"link_layer", "\"infiniband\""}};
    changes.insert(changes.end(), others.begin(), others.end());
    return changes;
}

void expect_lossless(const Outcome& outcome) {
    const TotalResult& total = outcome.results().total;
    EXPECT_EQ(total.drops, 0U);
    EXPECT_EQ(total.sent_again, 0U);
    EXPECT_EQ(total.timeouts, 0U);
    for (const PortResult& port : outcome.results().ports) {
        EXPECT_EQ(port.counters.dropped, 0U) << port.name;
    }
    for (const FlowResult& flow : outcome.results().flows) {
        EXPECT_FALSE(flow.has_failed);
    }
}

/// Of the time after the warm-up.
double part_without_credit(const Outcome& outcome, const std::string& name) {
    const Results& results = outcome.results();
    const PortResult& port = outcome.port(name);
    return static_cast<double>(port.xmit_wait_ns.back() - port.xmit_wait_at_warm_up_ns) /
           static_cast<double>(results.sampled_at.back() - results.steady_from_ns);
}

TEST(ExperimentInfiniband, OneFlowHasTheWholeLink) {
    const Outcome outcome(kSubnetStar, with_flows(R"([{from="h1", to="h3"}])"));
    EXPECT_NEAR(outcome.gbit(0), kSubnetLink, 0.02);
    expect_lossless(outcome);
    EXPECT_LE(queue_quantile(outcome.results(), outcome.port("s1>h3"), 1), 1050U + 16U);
    EXPECT_LT(part_without_credit(outcome, "h1>s1"), 0.01);
}

TEST(ExperimentInfiniband, TheBusiestPortIsASwitchs) {
    Results results;
    results.sampled_at = {1'000};
    for (const std::uint64_t bytes : {5'000U, 4'000U, 3'000U}) {
        PortResult port;
        port.rate = 40'000'000'000;
        port.is_host = bytes == 5'000U;
        port.counters.tx_bytes = bytes;
        results.ports.push_back(port);
    }
    EXPECT_EQ(&busiest_port(results), &results.ports[1]);
}

TEST(ExperimentInfiniband, AFixedRateIsKept) {
    const Outcome outcome(
        kSubnetStar, with_flows(R"([{from="h1", to="h3"}])",
                                {{"congestion.algorithm", "\"fixed\""}, {"congestion.fixed_gbit", "5"}}));
    // A QP is paced by the bytes of its packets, without the VCRC.
    EXPECT_NEAR(outcome.gbit(0), 5 * 1024.0 / 1048.0, 0.02);
}

TEST(ExperimentInfiniband, ReadsHaveTheServiceLevelOfTheirFlow) {
    const Outcome outcome(
        kSubnetStar, with_flows(R"([{from="h1", to="h3", verb="read", message_kb=64, sl=1}])",
                                {{"subnet.sl_to_vl", "[15,1,15,15,15,15,15,15,15,15,15,15,15,15,15,15]"}}));
    EXPECT_GT(outcome.gbit(0), 0.95 * kSubnetLink);
    expect_lossless(outcome);
}

TEST(ExperimentInfiniband, EveryHostReachesEveryOtherByItsLid) {
    const Outcome outcome(R"(
link_layer = "infiniband"
duration_us = 3000
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_each = 2
)",
                          with_flows(R"([{from=["h2","h3","h4"], to="h1", messages=2, message_kb=16},
                                         {from=["h1","h3","h4"], to="h2", messages=2, message_kb=16},
                                         {from=["h1","h2","h4"], to="h3", messages=2, message_kb=16},
                                         {from=["h1","h2","h3"], to="h4", messages=2, message_kb=16}])"));
    ASSERT_EQ(outcome.results().flows.size(), 12U);
    for (const FlowResult& flow : outcome.results().flows) {
        EXPECT_NE(flow.finished_ns, kNever);
        EXPECT_EQ(flow.bytes, 2U * 16 * 1024);
    }
    // LIDs are spread over the spines.
    EXPECT_GT(outcome.port("s1>s3").counters.tx_packets, 30U);
    EXPECT_GT(outcome.port("s1>s4").counters.tx_packets, 30U);
    expect_lossless(outcome);
}

// Nobody is told to slow down, and no buffer is larger than its credits.
TEST(ExperimentInfiniband, CreditsLoseNothing) {
    constexpr const char* kFour = R"([{from=["h1","h2","h3","h4"], to="h5"}])";
    for (const std::uint64_t buffer : {4'224U, 16'384U, 65'536U}) {
        const Outcome outcome(kSubnetStar,
                              with_flows(kFour, {{"subnet.vl_buffer_bytes", std::to_string(buffer)}}));
        expect_lossless(outcome);
        EXPECT_LE(queue_quantile(outcome.results(), outcome.port("s1>h5"), 1), 4 * buffer);
        EXPECT_GT(jain_index(outcome.results()), 0.999) << buffer;
        const double used = utilisation(outcome.results(), outcome.port("s1>h5"));
        if (buffer == 4'224U) {
            // Three packets of 17 blocks each time that a packet and the credit for it take: 210 + 2 * 1000 +
            // 2 ns.
            EXPECT_NEAR(used, 3 * 210.0 / 2212, 0.001);
        } else {
            EXPECT_GT(used, 0.99) << buffer;
            EXPECT_NEAR(part_without_credit(outcome, "h1>s1"), 0.75, 0.02) << "a quarter of the link is left";
        }
    }
}

// Four senders into one link of 5 Gbit/s: each has credit for a packet of 1.7 us every 6.7 us.
TEST(ExperimentInfiniband, LifetimesEndPacketsAndQpsRecover) {
    const Outcome outcome(kSubnetStar,
                          with_flows(R"([{from=["h1","h2","h3","h4"], to="h5", messages=4, message_kb=256}])",
                                     {{"topology.rate_gbit", "5"},
                                      {"subnet.hoq_life", "0"},
                                      {"rnic.timeout", "8"},
                                      {"duration_us", "60000"}}));
    EXPECT_GT(outcome.results().total.drops, 10U);
    EXPECT_GT(outcome.port("h1>s1").counters.dropped, 0U);
    EXPECT_GT(outcome.results().total.sent_again, 10U);
    for (const FlowResult& flow : outcome.results().flows) {
        EXPECT_NE(flow.finished_ns, kNever);
        EXPECT_EQ(flow.bytes, 1U << 20U);
    }
}

TEST(ExperimentInfiniband, LanesShareALinkByTheirWeights) {
    const Outcome outcome(kSubnetStar,
                          with_flows(R"([{from="h1", to="h3"}, {from="h2", to="h3", sl=1}])",
                                     {{"subnet.vls", "2"}, {"subnet.vl_low", "[[0, 64], [1, 192]]"}}));
    EXPECT_NEAR(outcome.gbit(1) / outcome.gbit(0), 3, 0.1);
    EXPECT_GT(outcome.gbit(0) + outcome.gbit(1), 0.99 * kSubnetLink);
    const Outcome high(kSubnetStar, with_flows(R"([{from="h1", to="h3"}, {from="h2", to="h3", sl=1}])",
                                               {{"subnet.vl_high", "[[1, 64]]"},
                                                {"subnet.vl_low", "[[0, 64]]"},
                                                {"subnet.vl_high_limit", "255"}}));
    EXPECT_GT(high.gbit(1), 0.98 * kSubnetLink) << "high priority has no limit";
    expect_lossless(outcome);
}

// A lane of a host's port that has no credit holds its own QPs back, and no others.
TEST(ExperimentInfiniband, LanesOfAHostDoNotWaitForEachOther) {
    constexpr const char* kFlows =
        R"([{from=["h1","h2","h4"], to="h3"}, {from="h1", to="h5", name="free", sl=1}])";
    const Outcome apart(kSubnetStar, with_flows(kFlows, {{"subnet.vls", "2"}}));
    EXPECT_NEAR(apart.gbit(0), kSubnetLink / 3, 0.5);
    EXPECT_NEAR(apart.gbit(3), kSubnetLink * 2 / 3, 0.5) << "what is left of the link of h1";
    const Outcome together(kSubnetStar, with_flows(kFlows, {{"subnet.vls", "1"}}));
    EXPECT_LT(together.gbit(3), kSubnetLink * 0.4);
}

// What docs/congestion.md shows: a flow that shares no bottleneck with an incast, in three networks.
TEST(ExperimentInfiniband, AVictimHasItsLinkOnALaneOfItsOwnAlone) {
    const Outcome paused(kVictim, {{"switch.xoff_kb", "64"}});
    constexpr double kFrameEfficiency = 1024.0 / 1106.0;
    EXPECT_LT(paused.gbit(kVictimFlow), 0.35 * 40 * kFrameEfficiency);
    EXPECT_GT(paused.results().total.host_pauses, 10U);
    EXPECT_EQ(paused.results().total.drops, 0U);
    EXPECT_TRUE(paused.port("s1>s2").xmit_wait_ns.empty()) << "Ethernet has no credits";

    const Outcome one_lane(kVictim, on_subnet({{"subnet.vls", "1"}}));
    EXPECT_LT(one_lane.gbit(kVictimFlow), 0.35 * kSubnetLink);
    EXPECT_NEAR(one_lane.gbit(kVictimFlow), one_lane.gbit(0), 1) << "its share is a sender's of the incast";
    EXPECT_NEAR(part_without_credit(one_lane, "v>s1"), 0.75, 0.05);
    EXPECT_NEAR(part_without_credit(one_lane, "s1>s2"), 0.5, 0.05) << "50 of 100 Gbit/s";
    expect_lossless(one_lane);

    const Outcome own_lane(kVictim, on_subnet({{"subnet.vls", "2"}, {"flow.victim.sl", "1"}}));
    EXPECT_GT(own_lane.gbit(kVictimFlow), 0.99 * kSubnetLink);
    EXPECT_LT(part_without_credit(own_lane, "v>s1"), 0.01);
    expect_lossless(own_lane);
    for (const Outcome* const outcome : {&one_lane, &own_lane}) {
        EXPECT_GT(utilisation(outcome->results(), outcome->port("s2>r")), 0.99)
            << "the incast loses nothing by it";
    }
}

TEST(ExperimentInfiniband, TheSameFileGivesTheSameBytes) {
    const Changes brief = on_subnet({{"duration_us", "3000"}, {"warm_up_us", "1000"}, {"subnet.vls", "2"}});
    const std::string first = Outcome(kVictim, brief).json();
    EXPECT_EQ(first, Outcome(kVictim, brief).json());
    Changes other = brief;
    other.emplace_back("subnet.vl_buffer_bytes", "32768");
    EXPECT_NE(first, Outcome(kVictim, other).json());
}

TEST(ExperimentInfiniband, ResultsTellWhereCreditWasMissing) {
    const Outcome outcome(kVictim, on_subnet({{"subnet.vls", "1"}}));
    const auto run = nlohmann::json::parse(outcome.json())["runs"][0];
    EXPECT_EQ(run["link_layer"], "infiniband");
    EXPECT_EQ(run["flows"][0]["sl"], 0);
    EXPECT_FALSE(run["flows"][0].contains("udp_source_port"));
    EXPECT_GT(run["summary"]["xmit_wait_us"], 1000);
    EXPECT_GT(run["summary"]["xmit_wait_of_hosts_us"], 5 * 3000);
    const auto& series = run["series"];
    EXPECT_EQ(series["xmit_wait_us"]["v>s1"].size(), series["time_us"].size());
    EXPECT_TRUE(series["queue_kb"].contains("s1>s2"));
    EXPECT_FALSE(series["queue_kb"].contains("v>s1"));
    for (const auto& port : run["ports"]) {
        EXPECT_FALSE(port.contains("pauses_sent"));
        if (port["name"] == "v>s1") {
            EXPECT_NEAR(port["xmit_wait_part"].get<double>(), part_without_credit(outcome, "v>s1"), 1e-5);
            EXPECT_EQ(port["xmit_wait_us"], series["xmit_wait_us"]["v>s1"].back());
        }
    }
    EXPECT_NE(outcome.summary().find("without credit: ports of switches "), std::string::npos);
    EXPECT_NE(outcome.ports_csv().find("run,time_us,port,queue_bytes,xmit_wait_us\n"), std::string::npos);
    const auto ethernet = nlohmann::json::parse(Outcome(kVictim).json())["runs"][0];
    EXPECT_EQ(ethernet["link_layer"], "ethernet");
    EXPECT_FALSE(ethernet["summary"].contains("xmit_wait_us"));
    EXPECT_FALSE(ethernet["series"].contains("xmit_wait_us"));
}

struct WrongSubnet {
    const char* key;
    const char* value;
    const char* says;
};

void expect_refused(const char* text, const Changes& changes, const char* says) {
    try {
        (void)read_experiment(text, "test", changes);
        ADD_FAILURE() << changes.back().first << " = " << changes.back().second << " passed";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
            << changes.back().first << " = " << changes.back().second << ": \"" << says
            << "\" is not in: " << error.what();
    }
}

TEST(ExperimentInfinibandFile, SaysWhatIsWrong) {
    for (const WrongSubnet& each : std::initializer_list<WrongSubnet>{
             {"subnet.vls", "3", "'vls' in [subnet] must be 1, 2, 4, 8 or 15"},
             {"subnet.vls", "16", "'vls' in [subnet] must be a whole number from 1 to 15"},
             {"subnet.sl_to_vl", "[0]",
              "'sl_to_vl' in [subnet] must be a list of 16 whole numbers from 0 to 15"},
             {"subnet.sl_to_vl", "[8,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
              "'sl_to_vl' in [subnet] names VL 8, but there are VLs 0 to 7 ('vls')"},
             {"subnet.sl_to_vl", "[15,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]",
              "flow \"a.1\": 'sl_to_vl' of [subnet] drops the packets of its sl 0"},
             {"subnet.vl_low", "[[1, 64]]",
              "flow \"a.1\": its VL 0 has no weight in 'vl_high' or 'vl_low' of [subnet]"},
             {"subnet.vl_low", "[[0, 0]]", "its VL 0 has no weight"},
             {"subnet.vl_low", "[0, 64]", "'vl_low' in [subnet] must be a list of at most 64 pairs"},
             {"subnet.vl_low", "[[0, 64, 1]]", "'vl_low' in [subnet] must be a list of at most 64 pairs"},
             {"subnet.vl_high", "[[15, 64]]", "a VL from 0 to 14 and a weight from 0 to 255"},
             {"subnet.vl_high", "[[0, 256]]", "'vl_high' in [subnet] must be a list"},
             {"subnet.vl_high", "[[0, -1]]", "'vl_high' in [subnet] must be a list"},
             {"subnet.vl_high_limit", "256",
              "'vl_high_limit' in [subnet] must be a whole number from 0 to 255"},
             {"subnet.vl_buffer_bytes", "4223",
              "'vl_buffer_bytes' in [subnet] must be a whole number from 4224 to 131072"},
             {"subnet.hoq_life", "32", "'hoq_life' in [subnet] must be a whole number from 0 to 31"},
             {"subnet.switch_life", "32", "'switch_life' in [subnet] must be a whole number from 0 to 31"},
             {"subnet.lmc", "1", "unknown key 'lmc' in [subnet]; allowed: vls, sl_to_vl"},
             {"flow.a.sl", "16", "'sl' in [[flow]] must be a whole number from 0 to 15"},
             {"flow.a.udp_source_port", "50000",
              "'udp_source_port' in [[flow]] is of no use with link_layer = \"infiniband\""},
             {"switch.xoff_kb", "5",
              "'switch' in the file is of no use with link_layer = \"infiniband\"; switches have what "
              "[subnet]"},
             {"rnic.priority", "3",
              "'priority' in [rnic] is of no use with link_layer = \"infiniband\"; a [[flow]] has an 'sl'"},
             {"topology.ecmp_seed", "3", "'ecmp_seed' in [topology] is of no use"},
             {"fluid_port", "\"s2>r\"", "'fluid_port' in the file is of no use"},
             {"congestion.algorithm", "\"dcqcn\"", "host \"a1\": algorithm must be \"none\" or \"fixed\""},
             {"congestion.algorithm", "\"timely\"", "algorithm must be \"none\" or \"fixed\""},
         }) {
        expect_refused(kVictim, on_subnet({{each.key, each.value}}), each.says);
    }
    expect_refused(kSubnetStar, with_flows(R"([{from="h1", to="h2"}])", {{"topology.hosts", "255"}}),
                   "[topology] \"s1\" has more than 254 links");
}

TEST(ExperimentInfinibandFile, EthernetHasNoneOfItsKeys) {
    expect_refused(
        kVictim, {{"subnet.vls", "2"}},
        "'subnet' in the file is of no use with link_layer = \"ethernet\"; switches have what [switch]");
    expect_refused(
        kVictim, {{"flow.victim.sl", "1"}},
        "'sl' in [[flow]] is of no use with link_layer = \"ethernet\"; all data has the 'priority'");
    expect_refused(kVictim, {{"link_layer", "\"token-ring\""}},
                   R"(must be "ethernet" or "infiniband", not "token-ring")");
}

TEST(ExperimentInfinibandFile, KeysAreThoseOfTheDaemonsNetworks) {
    const auto runs = read_experiment(kVictim, "test",
                                      on_subnet({{"subnet.vls", "4"},
                                                 {"subnet.sl_to_vl", "[3,2,1,0,3,2,1,0,3,2,1,0,3,2,1,15]"},
                                                 {"subnet.vl_high", "[[3, 64]]"},
                                                 {"subnet.vl_low", "[[0, 64], [1, 128]]"},
                                                 {"subnet.vl_high_limit", "7"},
                                                 {"subnet.vl_buffer_bytes", "131072"},
                                                 {"subnet.hoq_life", "5"},
                                                 {"subnet.switch_life", "6"}}));
    const netsim::IbNetworkOptions& options = runs.at(0).config.subnet;
    EXPECT_EQ(options.port.info.vl_cap, 4);
    EXPECT_EQ(options.port.info.operational_vls, 4);
    EXPECT_EQ(options.sl_to_vl.value()[1], 2);
    EXPECT_EQ(options.sl_to_vl.value()[15], 15);
    EXPECT_EQ(options.vl_high.value()[0], (netsim::VlArbitrationEntry{3, 64}));
    EXPECT_EQ(options.vl_low.value()[1], (netsim::VlArbitrationEntry{1, 128}));
    EXPECT_EQ(options.vl_low.value()[2], netsim::VlArbitrationEntry{});
    EXPECT_EQ(options.vl_high_limit, 7);
    EXPECT_EQ(options.port.vl_buffer_blocks, 2048U);
    EXPECT_EQ(options.port.info.hoq_life, 5);
    EXPECT_EQ(options.switches.life_time, 6);
    EXPECT_EQ(runs[0].config.hosts[0].settings.rate.algorithm, congestion::Algorithm::kNone);
}

}  // namespace
}  // namespace urnic::experiment
