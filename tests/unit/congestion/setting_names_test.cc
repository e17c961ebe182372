#include "congestion/setting_names.h"

#include <gtest/gtest.h>

#include "congestion/profiles.h"
#include "tests/support/find_dcqcn_profile.h"

namespace urnic::congestion {
namespace {

using Values = std::vector<NamedValue>;

std::string problem(const Values& values) {
    Settings settings = default_settings();
    const Settings before = settings;
    const auto found = apply_named(values, settings);
    if (!found) {
        return "";
    }
    EXPECT_EQ(settings, before) << "of a wrong list nothing is taken";
    return found->text;
}

TEST(SettingNames, WhatIsShownIsReadAsTheSame) {
    Settings settings = default_settings();
    ASSERT_FALSE(apply_named(Values{{"profile", "connectx"},
                                    {"algorithm", "dcqcn"},
                                    {"line_rate_mbps", "1000.5"},
                                    {"g", "0.3"},
                                    {"min_time_between_cnps_us", "2.125"},
                                    {"cnp_scope", "dst-ip"},
                                    {"timely_beta", "0.7"}},
                             settings));
    EXPECT_EQ(settings.rate.line_rate, 1'000'500'000U);
    EXPECT_EQ(settings.min_time_between_cnps_ns, 2125U);
    EXPECT_EQ(settings.cnp_scope, CnpScope::kDestinationIp);
    EXPECT_EQ(settings.rate.dcqcn.g, Fraction::of(3, 10));
    EXPECT_EQ(settings.rate.timely.beta, Fraction::of(7, 10));
    Values again;
    for (const ShownSetting& setting : shown(settings)) {
        again.emplace_back(setting.name, setting.text);
    }
    Settings copy = default_settings();
    const auto wrong = apply_named(again, copy);
    ASSERT_FALSE(wrong) << wrong->text;
    EXPECT_EQ(copy, settings);
}

TEST(SettingNames, AProfileSetsAllAndTheOthersChangeIt) {
    Settings settings = default_settings();
    EXPECT_EQ(settings.rate.dcqcn, find_dcqcn_profile("paper").parameters);
    ASSERT_FALSE(apply_named(
        Values{{"min_rate_mbps", "7"}, {"profile", "ns3-hpcc"}, {"line_rate_mbps", "100000"}}, settings));
    DcqcnParameters expected = parameters_for(find_dcqcn_profile("ns3-hpcc"), 100'000'000'000);
    expected.min_rate = 7'000'000;
    EXPECT_EQ(settings.rate.dcqcn, expected);
    EXPECT_EQ(settings.min_time_between_cnps_ns, 0U);
}

TEST(SettingNames, WhoTurnsControlOnAnswersMarks) {
    Settings settings = default_settings();
    EXPECT_FALSE(settings.cnp_enabled);
    EXPECT_EQ(settings.rate.algorithm, Algorithm::kNone);
    ASSERT_FALSE(apply_named(Values{{"algorithm", "dcqcn"}}, settings));
    EXPECT_TRUE(settings.cnp_enabled);
    ASSERT_FALSE(apply_named(Values{{"algorithm", "none"}, {"cnp", "true"}}, settings));
    EXPECT_TRUE(settings.cnp_enabled);
    ASSERT_FALSE(apply_named(Values{{"algorithm", "none"}}, settings));
    EXPECT_FALSE(settings.cnp_enabled);
}

TEST(SettingNames, WhatIsWrongIsSaidWithWhatIsAllowed) {
    EXPECT_EQ(problem({{"algorithm", "reno"}}),
              "'algorithm' is \"reno\"; it must be one of none, fixed, dcqcn, timely");
    EXPECT_EQ(problem({{"timely_low_us", "600"}}),
              "'timely_low_us' is 600; it must not be more than timely_high_us, 500");
    EXPECT_EQ(problem({{"cnp_dscp", "64"}}), "'cnp_dscp' is \"64\"; it must be a whole number from 0 to 63");
    EXPECT_EQ(problem({{"alpha_period_us", "0.4"}}),
              "'alpha_period_us' is \"0.4\"; it must be a number from 0.5 to 1000000 (us)");
    EXPECT_EQ(problem({{"cnp", "yes"}}), "'cnp' is \"yes\"; it must be true or false");
    EXPECT_NE(problem({{"line_rate", "5"}}).find("unknown setting 'line_rate'; allowed: algorithm, "),
              std::string::npos);
    EXPECT_EQ(problem({{"g", "0.5"}, {"g", "0.6"}}), "'g' is given twice");
    for (const char* text : {"", "-1", "nan", "inf", "1e30", "0x10", "5 ", "1.2.3"}) {
        EXPECT_NE(problem({{"line_rate_mbps", text}}), "") << text;
        EXPECT_NE(problem({{"burst_bytes", text}}), "") << text;
    }
    EXPECT_NE(problem({{"increase_period_us", "0"}, {"increase_bytes", "0"}}).find("no rate would ever rise"),
              std::string::npos);
    EXPECT_NE(problem({{"algorithm", "fixed"}, {"line_rate_mbps", "10"}}).find("rate_mbps"),
              std::string::npos);
}

TEST(SettingNames, FormerNamesAreReadAndWarnedOf) {
    const Values former = {{"profile", "connectx"},        {"cnp_gap_us", "7"},
                           {"first_cnp_rate_mbps", "3"},   {"clamps_target", "true"},
                           {"cut_window_us", "9"},         {"alpha_rises_with_period", "false"},
                           {"counts_stage_after", "false"}};
    const Values current = {{"profile", "connectx"},
                            {"min_time_between_cnps_us", "7"},
                            {"rate_to_set_on_first_cnp_mbps", "3"},
                            {"clamp_tgt_rate", "true"},
                            {"rate_reduce_monitor_period_us", "9"},
                            {"alpha_once_per_period", "false"},
                            {"recovery_stages_inclusive", "false"}};
    Settings a = default_settings();
    Settings b = default_settings();
    ASSERT_FALSE(apply_named(former, a));
    ASSERT_FALSE(apply_named(current, b));
    EXPECT_EQ(a, b);
    EXPECT_EQ(a.min_time_between_cnps_ns, 7000U);
    EXPECT_EQ(former_names_in(current), "");
    const std::string warning = former_names_in(former);
    for (const auto& [name, value] : current) {
        EXPECT_EQ(warning.find("'" + name + "'") != std::string::npos, name != "profile") << warning;
    }
    EXPECT_EQ(former_names_in(Values{{"cnp_gap_us", "7"}, {"g", "0.5"}}),
              "'cnp_gap_us' is now 'min_time_between_cnps_us'; the next release will not read former names");
    EXPECT_EQ(problem({{"cnp_gap_us", "7"}, {"min_time_between_cnps_us", "7"}}),
              "'min_time_between_cnps_us' is given twice");
    EXPECT_NE(problem({{"cnp_gap_us", "-7"}}), "");
}

}  // namespace
}  // namespace urnic::congestion
