// Experiments in virtual time: short ones, held against what the fluid model and plain sums say.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "congestion/profiles.h"
#include "experiment/fluid.h"
#include "tests/support/find_dcqcn_profile.h"
#include "tests/unit/experiment/outcome.h"

namespace urnic::experiment {
namespace {

constexpr const char* kIncast = R"(
duration_us = 40000
warm_up_us = 10000
sample_us = 20
fluid_port = "s1>h3"
[topology]
kind = "star"
hosts = 3
rate_gbit = 40
[[flow]]
name = "a"
from = "h1"
to = "h3"
[[flow]]
name = "b"
from = "h2"
to = "h3"
)";

std::uint64_t pauses(const Results& results) {
    std::uint64_t sum = 0;
    for (const PortResult& port : results.ports) {
        sum += port.counters.pauses_sent;
    }
    return sum;
}

// Of 1106 bytes on the wire 1024 are the application's; every 1024th packet has 16 bytes more.
constexpr double kEfficiency = 1024.0 / 1106.0;

TEST(Experiment, OneFlowHasTheWholeLink) {
    const Outcome outcome(kIncast,
                          {{"congestion.algorithm", "\"none\""}, {"flow", R"([{from="h1", to="h3"}])"}});
    EXPECT_NEAR(outcome.gbit(0), 40 * kEfficiency, 0.01);
    EXPECT_EQ(outcome.results().total.marks, 0U);
    EXPECT_EQ(outcome.results().total.drops, 0U);
    EXPECT_LE(queue_quantile(outcome.results(), outcome.port("s1>h3"), 1), 1106U + 16U);
}

TEST(Experiment, AFixedRateIsKept) {
    const Outcome outcome(kIncast, {{"congestion.algorithm", "\"fixed\""}, {"congestion.fixed_gbit", "5"}});
    // A QP is paced by the bytes of its frames, without the 24 that Ethernet adds.
    EXPECT_NEAR(outcome.gbit(0), 5 * 1024.0 / 1082.0, 0.01);
    EXPECT_NEAR(outcome.gbit(1), 5 * 1024.0 / 1082.0, 0.01);
    EXPECT_NEAR(outcome.results().flows[0].samples.back().rate_gbit, 5, 1e-9);
}

TEST(Experiment, TwoFlowsShareAsTheFluidModelSays) {
    const Outcome outcome(kIncast, {{"duration_us", "100000"}, {"warm_up_us", "30000"}});
    const Results& results = outcome.results();
    const PortResult& port = outcome.port("s1>h3");
    EXPECT_GT(jain_index(results), 0.99);
    EXPECT_GT(utilisation(results, port), 0.98);
    EXPECT_EQ(results.total.drops, 0U);
    EXPECT_EQ(pauses(results), 0U);
    EXPECT_EQ(results.total.sent_again, 0U);
    FluidModel model;
    model.dcqcn = congestion::parameters_for(congestion::find_dcqcn_profile("paper"), 40'000'000'000);
    model.min_time_between_cnps_ns = 50'000;
    model.ecn = {5'000, 200'000, Fraction::of(1, 100)};
    model.rate = 40'000'000'000;
    model.flows = 2;
    model.packet_bytes = 1106;
    const FluidPoint fluid = fixed_point(model);
    ASSERT_TRUE(fluid.is_valid);
    double sum = 0;
    for (const std::uint64_t bytes : port.queue_bytes) {
        sum += static_cast<double>(bytes);
    }
    // The queue sways about the point where the model stands still.
    EXPECT_NEAR(sum / static_cast<double>(port.queue_bytes.size()) / fluid.queue_bytes, 1, 0.5);
    EXPECT_LT(queue_quantile(results, port, 1), 200'000U);
    EXPECT_EQ(results.total.cnps_sent, results.total.cnps_handled);
    EXPECT_EQ(results.flows[0].cnps + results.flows[1].cnps, results.total.cnps_handled);
}

TEST(Experiment, ReadResponsesAreSlowedDownToo) {
    const Outcome outcome(kIncast,
                          {{"flow", R"([{from=["h1","h2"], to="h3", verb="read", message_kb=64, depth=16}])"},
                           {"duration_us", "100000"},
                           {"warm_up_us", "40000"}});
    EXPECT_GT(outcome.results().total.cnps_handled, 10U);
    EXPECT_GT(outcome.results().flows[0].cnps, 0U);
    EXPECT_GT(utilisation(outcome.results(), outcome.port("s1>h3")), 0.95);
    EXPECT_GT(jain_index(outcome.results()), 0.9);
}

// With DCQCN off nothing but the buffer stands between two senders and one link.
TEST(Experiment, WithoutCongestionControlFlowControlPausesOrPacketsAreLost) {
    const Changes none = {
        {"congestion.algorithm", "\"none\""}, {"switch.xoff_kb", "50"}, {"switch.buffer_kb", "300"}};
    const Outcome lossless(kIncast, none);
    EXPECT_EQ(lossless.results().total.drops, 0U);
    EXPECT_GT(pauses(lossless.results()), 10U);
    EXPECT_GT(lossless.results().total.host_pauses, 10U);
    EXPECT_GT(utilisation(lossless.results(), lossless.port("s1>h3")), 0.99);

    Changes lossy = none;
    lossy.emplace_back("rnic.timeout", "8");
    lossy.emplace_back("switch.pfc", "false");
    const Outcome selective(kIncast, lossy);
    EXPECT_GT(selective.results().total.drops, 10U);
    EXPECT_EQ(pauses(selective.results()), 0U);
    EXPECT_GE(selective.results().total.sent_again, selective.results().total.drops / 2);
    lossy.emplace_back("flow", R"([{from=["h1","h2"], to="h3", messages=8}])");
    for (const char* recovery : {"\"selective\"", "\"go-back-n\""}) {
        lossy.emplace_back("rnic.recovery", recovery);
        const Outcome outcome(kIncast, lossy);
        EXPECT_GT(outcome.results().total.sent_again, 10U) << recovery;
        for (const FlowResult& flow : outcome.results().flows) {
            EXPECT_NE(flow.finished_ns, kNever) << recovery;
            EXPECT_EQ(flow.bytes, 8U << 20U) << recovery;
        }
    }
}

// Behind a long queue packets are late, not lost: what was dropped goes again, and little else. The senders
// slow down until a message's packets take longer than any answer; that is no loss either.
TEST(Experiment, SelectiveRepairSendsNoMoreAgainThanGoBackN) {
    Changes dropping = {
        {"topology.hosts", "9"},
        {"switch.buffer_kb", "400"},
        {"switch.pfc", "false"},
        {"rnic.timeout", "8"},
        {"flow", R"([{from=["h1","h2","h3","h4","h5","h6","h7","h8"], to="h9", message_kb=64}])"}};
    dropping.emplace_back("fluid_port", "\"s1>h9\"");
    const Outcome selective(kIncast, dropping);
    dropping.emplace_back("rnic.recovery", "\"go-back-n\"");
    const Outcome go_back(kIncast, dropping);
    const auto per_drop = [](const Outcome& outcome) {
        const TotalResult& total = outcome.results().total;
        return static_cast<double>(total.sent_again) / static_cast<double>(total.drops);
    };
    EXPECT_GT(selective.results().total.drops, 1000U);
    EXPECT_LE(per_drop(selective), 1.25 * per_drop(go_back));
    EXPECT_EQ(selective.results().total.timeouts, 0U);
    EXPECT_GE(utilisation(selective.results(), selective.port("s1>h9")), 0.97);
}

TEST(Experiment, FlowsJoinAndLeave) {
    const Outcome outcome(kIncast, {{"flow", R"([{from="h1", to="h3"},
        {from="h2", to="h3", start_us=10000, stop_us=20000},
        {from="h2", to="h3", start_us=30000, messages=3, message_kb=256}])"}});
    const std::vector<FlowResult>& flows = outcome.results().flows;
    EXPECT_TRUE(flows[0].is_steady);
    EXPECT_FALSE(flows[1].is_steady);
    const auto at = [&](std::size_t flow, std::size_t us) {
        return flows[flow].samples[us / 20 - 1].goodput_gbit;
    };
    EXPECT_EQ(at(1, 9'980), 0);
    EXPECT_GT(at(1, 10'040), 1);
    EXPECT_EQ(at(1, 25'000), 0);
    EXPECT_EQ(flows[2].messages, 3U);
    EXPECT_EQ(flows[2].bytes, 3U * 256 * 1024);
    EXPECT_GT(flows[2].finished_ns, 30'000'000U);
    EXPECT_NE(flows[2].finished_ns, kNever);
    EXPECT_EQ(jain_index(outcome.results()), 1) << "one flow was there all the time";
}

TEST(Experiment, FlowsOfOneSourcePortTakeOneWay) {
    constexpr const char* kLeafSpine = R"(
duration_us = 3000
[topology]
kind = "leaf-spine"
leaves = 2
spines = 4
hosts_each = 4
rate_gbit = 10
[congestion]
algorithm = "none"
[[flow]]
from = ["h1", "h2", "h3", "h4"]
to = "h5"
udp_source_port = 50000
)";
    const auto used = [](const Outcome& outcome) {
        int ports = 0;
        for (const char* spine : {"s1>s3", "s1>s4", "s1>s5", "s1>s6"}) {
            ports += outcome.port(spine).counters.tx_packets > 100 ? 1 : 0;
        }
        return ports;
    };
    // Four flows of one host: the source port alone tells them apart.
    EXPECT_EQ(
        used(Outcome(kLeafSpine, {{"flow", R"([{from="h1", to="h5", count=4, udp_source_port=50000}])"}})),
        1);
    EXPECT_GT(used(Outcome(kLeafSpine, {{"flow", R"([{from="h1", to="h5", count=16}])"}})), 2);
}

TEST(Experiment, TheSameSeedGivesTheSameBytes) {
    const Changes brief = {{"duration_us", "5000"}, {"warm_up_us", "1000"}};
    const std::string first = Outcome(kIncast, brief).json();
    EXPECT_EQ(first, Outcome(kIncast, brief).json());
    Changes other = brief;
    other.emplace_back("seed", "2");
    EXPECT_NE(first, Outcome(kIncast, other).json());
}

TEST(Experiment, ASweepIsARunForEachValue) {
    const std::vector<experiment::Run> runs =
        read_experiment(kIncast, "test", {{"sweep", R"({key="congestion.g", values=[0.01, 0.1]})"}});
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0].label, "congestion.g = 0.01");
    EXPECT_EQ(runs[0].config.hosts[0].settings.rate.dcqcn.g, Fraction::of(1, 100));
    EXPECT_EQ(runs[1].config.hosts[2].settings.rate.dcqcn.g, Fraction::of(1, 10));
}

TEST(Experiment, AHostMayGoByOtherRules) {
    const Outcome outcome(kIncast, {{"host", R"([{name="h2", algorithm="fixed", fixed_gbit=10}])"}});
    EXPECT_NEAR(outcome.gbit(1), 10 * 1024.0 / 1082.0, 0.1);
    EXPECT_NEAR(outcome.gbit(0) + outcome.gbit(1), 40 * kEfficiency, 1);
}

TEST(ExperimentFile, SaysWhatIsWrong) {
    struct Case {
        const char* key;
        const char* value;
        const char* says;
    };
    const std::vector<Case> cases = {
        {"duration_us", "0", "'duration_us' in the file must be a number from 1 to 1e+09"},
        {"warm_up_us", "40000", "warm_up_us must be less than duration_us"},
        {"sample_us", "\"often\"", "'sample_us' in the file must be a number"},
        {"duration_us", "1e9", "samples are too many"},
        {"durations_us", "5",
         "unknown key 'durations_us' in the file (did you mean duration_us?); allowed: name, about"},
        {"topology.kind", "\"ring\"",
         R"('kind' in [topology] must be "star", "dumbbell", "parking-lot", "leaf-spine" or "custom", not "ring")"},
        {"topology.hosts", "1", "'hosts' in [topology] must be a whole number from 2"},
        {"topology.hosts", "2.5", "'hosts' in [topology] must be a whole number from 2"},
        {"topology.hosts", "2", "flow \"a\": there is no host \"h3\" in the topology"},
        {"topology.rate_gbit", "2000", "'rate_gbit' in [topology] must be a number from 0.001 to 1099"},
        {"topology.delay_ns", "-1", "'delay_ns' in [topology] must be"},
        {"topology",
         R"({kind="custom", hosts=["h1","h2","h3"], switches=["s1"], link=[{between=["h1","s1"]}, {between=["h2","s1"]}]})",
         "host \"h3\" has no link"},
        {"topology", R"({kind="custom", hosts=["h1","h2"], switches=["s1"], link=[{between=["h1","s9"]}]})",
         "'between' in [[topology.link]] names \"s9\", which is neither a host nor a switch"},
        {"topology", R"({kind="custom", hosts=["h1","h2"], switches=["s1"], link=[{between=["h1"]}]})",
         "must name the two ends of the link"},
        {"topology",
         R"({kind="custom", hosts=["h1","h3"], switches=["s1"], link=[{between=["h1","s1"]}, {between=["h3","s1"]}, {between=["s1","s1"]}]})",
         "\"s1\" has a link to itself, which is a loop"},
        {"topology", "5", "'topology' in the file must be a table"},
        {"switch.kmin_kb", "300", "[switch] kmin_kb must not be greater than kmax_kb"},
        {"switch.xon_kb", "900", "[switch] xon_kb must not be greater than xoff_kb"},
        {"switch.pmax", "1.5", "'pmax' in [switch] must be a number from 0 to 1"},
        {"switch.pfc", "1", "'pfc' in [switch] must be true or false"},
        {"congestion.profile", "\"vegas\"", R"('profile' in [congestion] must be "paper", "connectx")"},
        {"congestion.g", "0", "host \"h1\": "},
        {"congestion.g", "nan", "'g' in [congestion] must be a number from 0 to 1"},
        {"congestion.algorithm", "\"swift\"", R"(must be "dcqcn", "none", "fixed" or "timely", not "swift")"},
        {"congestion.kmin", "5", "unknown key 'kmin' in [congestion]; allowed: algorithm"},
        {"rnic.mtu", "1000", "'mtu' in [rnic] must be 256, 512, 1024, 2048 or 4096"},
        {"rnic.recovery", "\"hope\"", R"(must be "selective" or "go-back-n", not "hope")"},
        {"host", R"([{name="h9"}])", "'name' in [[host]] must be the name of a host"},
        {"host", R"({name="h1"})", "'host' in the file must be tables: [[host]]"},
        {"host", R"([{name="h1", algorithm="fixed", fixed_gbit=50}])",
         "host \"h1\": fixed_gbit must be more than 0 and at most"},
        {"flow", "[]", "'flow' in the file must be tables"},
        {"flow", R"([{from="h1", to="h1"}])", "flow \"f1\": from and to are the same host"},
        {"flow", R"([{from="h1", to="s1"}])", "flow \"f1\": \"s1\" is a switch, not a host"},
        {"flow", R"([{from="h1", to="h2", stop_us=5, start_us=5}])", "stop_us must be greater than start_us"},
        {"flow", R"([{from="h1", to="h2", verb="send"}])", R"(must be "write" or "read", not "send")"},
        {"flow", R"([{from="h1", to="h2", udp_source_port=70000}])",
         "must be a whole number from 0 to 65535"},
        {"flow", R"([{from="h1", to="h2", depth=129}])", "must be a whole number from 1 to 128"},
        {"flow", R"([{from="h1", to="h2", name="x"}, {from="h1", to="h2", name="x"}])",
         "two flows are called \"x\""},
        {"sweep", "{key=\"seed\"}", "[sweep] needs key"},
        {"sweep", R"({key="switch.", values=[1]})", "does not end in the name of a key"},
        {"sweep", R"({key="seed.x", values=[1]})", "'seed' is not a table"},
        {"seed", "one", "that is no TOML value"},
    };
    const std::string seeded = std::string("seed = 1\n") + kIncast;
    for (const Case& each : cases) {
        try {
            (void)read_experiment(seeded, "test", {{each.key, each.value}});
            ADD_FAILURE() << each.key << " = " << each.value << " passed";
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(each.says), std::string::npos)
                << each.key << " = " << each.value << ": \"" << each.says << "\" is not in: " << error.what();
        }
    }
}

TEST(ExperimentFile, WeightsAreEightNumbers) {
    const auto read = [](const char* weights) {
        return read_experiment(kIncast, "test", {{"switch.weights", weights}}).at(0).config.fabric.weights;
    };
    EXPECT_EQ(read("[0, 1, 2, 3, 4, 5, 6, 1000]"), (std::array<std::uint32_t, 8>{0, 1, 2, 3, 4, 5, 6, 1000}));
    for (const char* wrong : {"1", "[1, 2]", "[1, 2, 3, 4, 5, 6, 7, -8]", "[1, 2, 3, 4, 5, 6, 7, 1001]",
                              "[1, 2, 3, 4, 5, 6, 7, 8, 1001]"}) {
        EXPECT_THROW((void)read(wrong), ConfigError) << wrong;
    }
}

TEST(ExperimentFile, TellsTheLine) {
    for (const auto& [text, says] : {std::pair{"seed = \n", "test:1:"},
                                     {"duration_us = 5\n[topology]\nhosts = 0\n", "test:3:9: 'hosts'"},
                                     {"duration_us = 5\n", "test: there is no [topology]"},
                                     {"[topology]\n[rnic]\nmtu = 5\n[sweep]\nkey = \"seed\"\nvalues = [1]\n",
                                      "test:3:7: 'mtu' in [rnic] must be"}}) {
        try {
            (void)read_experiment(text, "test", {});
            ADD_FAILURE() << text;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
        }
    }
}

// The two conditions of the fixed point, written down once more and plainly.
TEST(Fluid, NothingMovesAtTheFixedPoint) {
    for (const std::uint32_t flows : {1U, 2U, 8U, 20U, 64U}) {
        FluidModel model;
        model.dcqcn = congestion::parameters_for(congestion::find_dcqcn_profile("paper"), 40'000'000'000);
        model.min_time_between_cnps_ns = 50'000;
        model.ecn = {5'000, 200'000, Fraction::one()};
        model.rate = 40'000'000'000;
        model.flows = flows;
        model.packet_bytes = 1000;
        const FluidPoint point = fixed_point(model);
        ASSERT_TRUE(point.is_valid);
        const double p = point.marked;
        const double rc = 5e6 / flows;  // packets a second
        const double rt = point.target_gbit * 1e9 / 8000;
        const double tau = 50e-6;
        const double byte_packets = 1e7 / 1000;
        const double timer_packets = 55e-6 * rc;
        const double cut = 1 - std::pow(1 - p, tau * rc);
        const double by_bytes = p / (std::pow(1 - p, -byte_packets) - 1);
        const double by_timer = p / (std::pow(1 - p, -timer_packets) - 1);
        EXPECT_NEAR(point.alpha, 1 - std::pow(1 - p, 55e-6 * rc), 1e-6);
        const double falls = rc * point.alpha / (2 * tau) * cut;
        const double rises = (rt - rc) / 2 * rc * (by_bytes + by_timer);
        EXPECT_NEAR(falls / rises, 1, 1e-3) << flows;
        const double target_falls = (rt - rc) / tau * cut;
        const double target_rises =
            40e6 / 8000 * rc *
            (std::pow(1 - p, 5 * byte_packets) * by_bytes + std::pow(1 - p, 5 * timer_packets) * by_timer);
        EXPECT_NEAR(target_falls / target_rises, 1, 1e-3) << flows;
        EXPECT_NEAR(point.queue_bytes, 5'000 + p * 195'000, 1);
        if (flows >= 2 && flows <= 20) {
            EXPECT_NEAR(approximate_marking(model) / p, 1, 0.4) << flows << ": the short form of the paper";
        }
    }
}

FluidModel forty_gigabit(std::uint32_t flows) {
    FluidModel model;
    model.dcqcn = congestion::parameters_for(congestion::find_dcqcn_profile("paper"), 40'000'000'000);
    model.min_time_between_cnps_ns = 50'000;
    model.ecn = {5'000, 200'000, Fraction::of(1, 100)};
    model.rate = 40'000'000'000;
    model.flows = flows;
    model.packet_bytes = 1000;
    return model;
}

// Two ways to one place: the conditions solved, and the equations followed.
TEST(Fluid, ItsCourseEndsAtTheFixedPoint) {
    for (const std::uint32_t flows : {2U, 4U, 8U}) {
        const FluidModel model = forty_gigabit(flows);
        const FluidCourse moves = course(model, 150'000'000, 200'000'000, 4'000);
        EXPECT_NEAR(moves.queue_bytes / fixed_point(model).queue_bytes, 1, 0.001) << flows;
        EXPECT_NEAR(moves.utilisation, 1, 1e-6);
        EXPECT_LT(moves.most_queue_bytes - moves.least_queue_bytes, 100);
    }
}

TEST(Fluid, BeyondPmaxItDoesNotRest) {
    const FluidModel model = forty_gigabit(20);
    EXPECT_EQ(fixed_point(model).queue_bytes, 200'000);
    const FluidCourse moves = course(model, 150'000'000, 200'000'000, 4'000);
    EXPECT_GT(moves.most_queue_bytes - moves.least_queue_bytes, 20'000);
}

TEST(Fluid, IsNotForModelsThatItDoesNotDescribe) {
    FluidModel model;
    model.dcqcn = congestion::parameters_for(congestion::find_dcqcn_profile("connectx"), 40'000'000'000);
    model.min_time_between_cnps_ns = 4'000;
    model.ecn = {5'000, 200'000, Fraction::one()};
    model.rate = 40'000'000'000;
    model.flows = 2;
    model.packet_bytes = 1000;
    EXPECT_FALSE(fixed_point(model).is_valid) << "it cuts once in a window";
    model.dcqcn = congestion::parameters_for(congestion::find_dcqcn_profile("paper"), 40'000'000'000);
    model.ecn = {};
    EXPECT_FALSE(fixed_point(model).is_valid) << "nothing marks";
}

}  // namespace
}  // namespace urnic::experiment
