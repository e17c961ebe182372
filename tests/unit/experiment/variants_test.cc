// Variants of one experiment, and changes to one of several tables.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/experiment/outcome.h"

namespace urnic::experiment {
namespace {

constexpr const char* kTwoNetworks = R"(
duration_us = 200
[topology]
kind = "star"
hosts = 3
[[flow]]
name = "a"
from = "h1"
to = "h3"
[[flow]]
name = "b"
from = "h2"
to = "h3"
[[variant]]
name = "as it is"
[[variant]]
name = "two lanes"
set = {link_layer = "infiniband", "subnet.vls" = 2, "flow.b.sl" = 1}
)";

void expect_wrong(const Changes& changes, const std::string& says) {
    try {
        (void)read_experiment(kTwoNetworks, "test", changes);
        ADD_FAILURE() << changes.back().first << " = " << changes.back().second << " passed";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
            << changes.back().first << " = " << changes.back().second << ": \"" << says
            << "\" is not in: " << error.what();
    }
}

TEST(ExperimentVariants, EachIsARunWithItsChanges) {
    const auto runs = read_experiment(kTwoNetworks, "test", {});
    ASSERT_EQ(runs.size(), 2U);
    EXPECT_EQ(runs[0].label, "as it is");
    EXPECT_EQ(runs[0].config.link_layer, LinkLayer::kEthernet);
    EXPECT_EQ(runs[1].label, "two lanes");
    EXPECT_TRUE(runs[1].is_variant);
    EXPECT_EQ(runs[1].config.link_layer, LinkLayer::kInfiniband);
    EXPECT_EQ(runs[1].config.subnet.port.info.operational_vls, 2);
    EXPECT_EQ(runs[1].config.flows[0].sl, 0);
    EXPECT_EQ(runs[1].config.flows[1].sl, 1);
    const auto results = nlohmann::json::parse(Outcome(kTwoNetworks).json());
    EXPECT_EQ(results["is_comparison"], true);
    EXPECT_EQ(results["runs"][1]["label"], "two lanes");
}

TEST(ExperimentVariants, SayWhatIsWrong) {
    expect_wrong(
        {
            {"variant", R"([{name="x"}, {name="x"}])"},
        },
        "'name' in [[variant]] must be there, and another one");
    expect_wrong({{"variant", R"([{set={seed=1}}])"}}, "'name' in [[variant]] must be there");
    expect_wrong({{"variant", R"([{name="x", sets={seed=1}}])"}},
                 "unknown key 'sets' in [[variant]] (did you mean [variant.set]?)");
    expect_wrong({{"variant", R"([{name="x", set=[1]}])"}}, "'set' in [[variant]] must be a table");
    expect_wrong({{"variant", R"([{name="x", set={"rnic.mtu"=7}}])"}},
                 "[[variant]] \"x\": 'mtu' in [rnic] must be");
    expect_wrong({{"variant", "7"}}, "'variant' in the file must be tables: [[variant]]");
    expect_wrong({{"sweep", R"({key="seed", values=[1]})"}},
                 "a file has a [sweep] or [[variant]]s, not both");
}

TEST(ExperimentVariants, AKeyOfOneOfSeveralTablesIsNamedByItsTable) {
    const auto runs = read_experiment(kTwoNetworks, "test", {{"flow.b.depth", "7"}});
    EXPECT_EQ(runs[0].config.flows[0].depth, 4U);
    EXPECT_EQ(runs[0].config.flows[1].depth, 7U);
    expect_wrong({{"flow.c.depth", "7"}}, "'flow.c.depth' cannot be set: there is nothing with name = \"c\"");
    expect_wrong({{"flow.b", "7"}}, "'flow.b' cannot be set: it is a table; name a key of it");
    expect_wrong({{"flow.b.", "7"}}, "'flow.b.' does not end in the name of a key");
    expect_wrong({{"flow.b.name.x", "7"}}, "'flow.b.name' is not a table");
}

TEST(ExperimentVariants, FormerNamesOfKeysAreReadWithOneWarningEach) {
    constexpr const char* kFormer =
        "[topology]\n[congestion]\ncnp_gap_us = 7\n[[flow]]\nfrom = \"h1\"\nto = \"h2\"\n"
        "[[variant]]\nname = \"a\"\nset = {\"congestion.first_alpha\" = 0.5}\n"
        "[[variant]]\nname = \"b\"\nset = {\"congestion.first_alpha\" = 0.25}\n";
    testing::internal::CaptureStderr();
    const auto runs = read_experiment(kFormer, "f", {{"congestion.cut_window_us", "9"}});
    const std::string said = testing::internal::GetCapturedStderr();
    const std::string now = " now; the next release does not read the old name\n";
    EXPECT_EQ(said,
              "urnic experiment: warning: f:3:1: 'cnp_gap_us' in [congestion] is called "
              "'min_time_between_cnps_us'" +
                  now +
                  "urnic experiment: warning: f: 'congestion.cut_window_us' is called "
                  "'rate_reduce_monitor_period_us'" +
                  now + "urnic experiment: warning: f: 'congestion.first_alpha' is called 'initial_alpha'" +
                  now);
    ASSERT_EQ(runs.size(), 2U);
    const congestion::Settings& settings = runs[1].config.hosts[0].settings;
    EXPECT_EQ(settings.min_time_between_cnps_ns, 7'000U);
    EXPECT_EQ(settings.rate.dcqcn.rate_reduce_monitor_period_ns, 9'000U);
    EXPECT_EQ(settings.rate.dcqcn.initial_alpha, Fraction::of(1, 4));
    EXPECT_EQ(runs[0].config.hosts[0].settings.rate.dcqcn.initial_alpha, Fraction::of(1, 2));
}

}  // namespace
}  // namespace urnic::experiment
