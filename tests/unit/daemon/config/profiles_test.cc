#include "daemon/config/profiles.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rnic/device/rnic_profile.h"
#include "rnic/wire/frame.h"
#include "tests/unit/daemon/config/good_config.h"

namespace urnic::daemon {
namespace {

using congestion::Algorithm;
using congestion::CnpScope;
using testing::HasSubstr;
using wire::SourcePortRule;

RnicConfig rnic_with(const std::string& keys) { return good(kRnic + keys).rnics.at(0); }

std::string refusal_of(const std::string& keys) {
    const auto result = parse_config(kRnic + keys, "f");
    const auto* error = std::get_if<ConfigError>(&result);
    return error != nullptr ? error->message : "";
}

TEST(RnicProfiles, WithoutOneAnRnicHasItsOwnWays) {
    const RnicConfig rnic = rnic_with("");
    EXPECT_EQ(rnic.profile, "");
    EXPECT_FALSE(rnic.use_go_back_n);
    EXPECT_TRUE(rnic.sends_mig_req);
    EXPECT_EQ(rnic.source_port_rule, SourcePortRule::kFlow);
    EXPECT_EQ(rnic.congestion, congestion::default_settings());
    EXPECT_FALSE(rnic.acks_each_request);
    EXPECT_EQ(rnic.timer_tick_ns, 0U);
}

// What `urnic conform --profile` compares devices with is what an RNIC of ours with that profile does.
TEST(RnicProfiles, EachIsTakenAsItIsWritten) {
    for (const RnicProfile& profile : rnic_profiles()) {
        const std::string name(profile.name);
        const RnicConfig rnic = rnic_with("profile = \"" + name + "\"\n");
        EXPECT_EQ(rnic.profile, name);
        EXPECT_EQ(rnic.use_go_back_n, profile.use_go_back_n) << name;
        EXPECT_EQ(rnic.sends_mig_req, profile.sends_mig_req) << name;
        EXPECT_EQ(rnic.source_port_rule, profile.source_port_rule) << name;
        EXPECT_EQ(rnic.acks_each_request, profile.acks_each_request) << name;
        EXPECT_EQ(rnic.timer_tick_ns, profile.timer_tick_ns) << name;
        const RnicCnpBehaviour cnp = cnp_behaviour(profile);
        EXPECT_EQ(rnic.congestion.cnp_enabled, cnp.answers_marks) << name;
        EXPECT_EQ(rnic.congestion.min_time_between_cnps_ns, cnp.min_time_between_cnps_ns) << name;
        EXPECT_EQ(rnic.congestion.cnp_scope == CnpScope::kFlow, cnp.has_gap_of_each_qp) << name;
        EXPECT_EQ(rnic.congestion.nak_triggers_cnp, cnp.nak_triggers_cnp) << name;
    }
}

TEST(RnicProfiles, Strict) {
    const RnicConfig rnic = rnic_with("profile = \"strict\"\n");
    EXPECT_EQ(rnic.profile, "strict");
    EXPECT_TRUE(rnic.use_go_back_n);
    EXPECT_TRUE(rnic.sends_mig_req);
    EXPECT_EQ(rnic.source_port_rule, SourcePortRule::kFlow);
    EXPECT_EQ(rnic.congestion, congestion::default_settings());
}

TEST(RnicProfiles, ConnectX) {
    const RnicConfig rnic = rnic_with("profile = \"connectx\"\n");
    EXPECT_TRUE(rnic.use_go_back_n);
    EXPECT_TRUE(rnic.sends_mig_req);
    EXPECT_EQ(rnic.congestion.rate.algorithm, Algorithm::kDcqcn);
    EXPECT_EQ(rnic.congestion.rate.dcqcn.increase_period_ns, 300'000);
    EXPECT_TRUE(rnic.congestion.cnp_enabled);
    EXPECT_EQ(rnic.congestion.min_time_between_cnps_ns, 4'000);
    EXPECT_EQ(rnic.congestion.cnp_scope, CnpScope::kPort);
    EXPECT_TRUE(rnic.congestion.nak_triggers_cnp);
}

TEST(RnicProfiles, E810) {
    const RnicConfig rnic = rnic_with("profile = \"e810\"\n");
    EXPECT_TRUE(rnic.use_go_back_n);
    EXPECT_FALSE(rnic.sends_mig_req);
    EXPECT_EQ(rnic.congestion.rate.algorithm, Algorithm::kNone);
    EXPECT_TRUE(rnic.congestion.cnp_enabled);
    EXPECT_EQ(rnic.congestion.min_time_between_cnps_ns, 50'000);
    EXPECT_EQ(rnic.congestion.cnp_scope, CnpScope::kFlow);
    EXPECT_FALSE(rnic.congestion.nak_triggers_cnp);
}

TEST(RnicProfiles, Rxe) {
    const RnicConfig rnic = rnic_with("profile = \"rxe\"\n");
    EXPECT_TRUE(rnic.use_go_back_n);
    EXPECT_FALSE(rnic.sends_mig_req);
    EXPECT_EQ(rnic.source_port_rule, SourcePortRule::kLinux);
    EXPECT_FALSE(rnic.congestion.cnp_enabled);
    EXPECT_TRUE(rnic.acks_each_request);
    EXPECT_EQ(rnic.timer_tick_ns, 4'000'000U) << "a jiffy of Debian's kernels";
}

// Wherever it stands in the table.
TEST(RnicProfiles, KeysBesideItGoBefore) {
    const std::string keys = "recovery = \"selective\"\nmig_req = true\nudp_source_port = \"linux\"\n";
    const std::string profile = "profile = \"e810\"\n";
    const std::string congestion = "[rnic.congestion]\ncnp_scope = \"dst-ip\"\n";
    for (const std::string& text : {profile + keys + congestion, keys + profile + congestion}) {
        const RnicConfig rnic = rnic_with(text);
        EXPECT_EQ(rnic.profile, "e810");
        EXPECT_FALSE(rnic.use_go_back_n);
        EXPECT_TRUE(rnic.sends_mig_req);
        EXPECT_EQ(rnic.source_port_rule, SourcePortRule::kLinux);
        EXPECT_EQ(rnic.congestion.cnp_scope, CnpScope::kDestinationIp);
        EXPECT_EQ(rnic.congestion.min_time_between_cnps_ns, 50'000) << "the profile's";
    }
}

TEST(RnicProfiles, AcknowledgementsAndTicksHaveKeys) {
    const RnicConfig rnic = rnic_with("profile = \"rxe\"\nack_coalescing = \"burst\"\ntimer_tick_us = 0.5\n");
    EXPECT_FALSE(rnic.acks_each_request);
    EXPECT_EQ(rnic.timer_tick_ns, 500U);
    EXPECT_TRUE(rnic_with("ack_coalescing = \"none\"\n").acks_each_request);
    EXPECT_THAT(refusal_of("ack_coalescing = true\n"), HasSubstr("'ack_coalescing'"));
    EXPECT_THAT(refusal_of("ack_coalescing = \"some\"\n"), HasSubstr("must be \"burst\" or \"none\""));
    EXPECT_THAT(refusal_of("timer_tick_us = -1\n"), HasSubstr("'timer_tick_us'"));
    EXPECT_THAT(refusal_of("timer_tick_us = 100001\n"), HasSubstr("'timer_tick_us'"));
}

TEST(RnicProfiles, WhatThereIsNoneOfIsRefusedWithTheNames) {
    EXPECT_THAT(
        refusal_of("profile = \"mlx5\"\n"),
        HasSubstr("'profile' in [[rnic]] must be one of \"strict\", \"connectx\", \"e810\", \"rxe\""));
    EXPECT_THAT(refusal_of("profile = 1\n"), HasSubstr("'profile'"));
    EXPECT_THAT(refusal_of("udp_source_port = \"random\"\n"), HasSubstr("must be \"flow\" or \"linux\""));
    EXPECT_THAT(refusal_of("mig_req = 1\n"), HasSubstr("'mig_req'"));
}

// Ports that Linux rxe took for its QPs, as captured.
TEST(SourcePorts, AsLinuxMakesThem) {
    const auto port = [](std::uint32_t flow_label, std::uint32_t qp_num, std::uint32_t dest_qp_num) {
        return wire::udp_source_port(SourcePortRule::kLinux, flow_label, qp_num, dest_qp_num);
    };
    EXPECT_EQ(port(0, 0x11, 0x11), 49441);
    EXPECT_EQ(port(0, 0x19, 0x19), 49777);
    EXPECT_EQ(port(0, 0x123456, 0x654321), port(0, 0x654321, 0x123456)) << "both ends have one";
    EXPECT_EQ(port(0, 0x123456, 0x654321), 0xf787);
    EXPECT_EQ(port(0x12345, 1, 2), wire::udp_source_port(0x12345, 1, 2)) << "a flow label goes before";
    EXPECT_EQ(wire::udp_source_port(SourcePortRule::kFlow, 0, 1, 2), wire::udp_source_port(0, 1, 2));
}

}  // namespace
}  // namespace urnic::daemon
