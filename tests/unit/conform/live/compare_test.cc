// A device's ways beside those of a profile.
#include "conform/live/compare.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace urnic::conform {
namespace {

constexpr std::uint64_t kUs = 1'000;

const RnicProfile& profile(const char* name) { return *find_rnic_profile(name); }

std::string compared(const char* name, Way way, std::uint64_t value) {
    const std::optional<Comparison> comparison = compare(profile(name), {way, value});
    return comparison ? comparison->text : "nothing";
}

TEST(RnicWays, ThoseOfTheProfilesAreTheDaemons) {
    for (const RnicProfile& each : rnic_profiles()) {
        EXPECT_EQ(way_of(each, Way::kMigReq), each.sends_mig_req ? 1U : 0U) << each.name;
        EXPECT_EQ(way_of(each, Way::kEarlyPackets), each.use_go_back_n ? 0U : 1U) << each.name;
        EXPECT_EQ(way_of(each, Way::kRepetition), each.use_go_back_n ? 1U : 0U) << each.name;
        EXPECT_EQ(way_of(each, Way::kSourcePort), static_cast<std::uint64_t>(each.source_port_rule));
        const RnicCnpWays cnp = cnp_ways(each);
        EXPECT_EQ(way_of(each, Way::kCnp), cnp.answers_marks ? 1U : 0U) << each.name;
        EXPECT_EQ(way_of(each, Way::kCnpGap).has_value(), cnp.answers_marks) << each.name;
        EXPECT_EQ(way_of(each, Way::kCnpScope).has_value(), cnp.answers_marks) << each.name;
        EXPECT_EQ(way_of(each, Way::kCnpOfANak), cnp.nak_triggers_cnp ? 1U : 0U) << each.name;
    }
    EXPECT_EQ(way_of(profile("connectx"), Way::kCnpGap), 4 * kUs);
    EXPECT_EQ(way_of(profile("connectx"), Way::kCnpScope), 0U);
    EXPECT_EQ(way_of(profile("connectx"), Way::kCnpOfANak), 1U);
    EXPECT_EQ(way_of(profile("e810"), Way::kCnpGap), 50 * kUs);
    EXPECT_EQ(way_of(profile("e810"), Way::kCnpScope), 1U);
    EXPECT_EQ(find_rnic_profile("mlx5"), nullptr);
}

TEST(RnicWays, AgreementAndDifferenceAreSaidWithTheSource) {
    EXPECT_EQ(compared("connectx", Way::kMigReq, 1), "as connectx");
    EXPECT_EQ(compared("connectx", Way::kMigReq, 0), "differs from connectx: 1") << "no source is known";
    EXPECT_EQ(compared("rxe", Way::kMigReq, 1), "differs from rxe: 0, by Linux, drivers/infiniband/sw/rxe");
    EXPECT_EQ(compared("e810", Way::kEarlyPackets, 1),
              "differs from e810: they are discarded, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("strict", Way::kRepetition, 0),
              "differs from strict: all that follows goes again, by IBA 9.7.5.1.2");
    EXPECT_EQ(compared("rxe", Way::kSourcePort, kOtherSourcePorts),
              "differs from rxe: as Linux makes them, by Linux, rdma_get_udp_sport()");
    EXPECT_EQ(compared("rxe", Way::kCnp, 1),
              "differs from rxe: no mark has a CNP, by Linux, drivers/infiniband/sw/rxe");
    EXPECT_EQ(compared("connectx", Way::kCnpScope, 1),
              "differs from connectx: one gap for both QPs, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("connectx", Way::kCnpOfANak, 0), "differs from connectx: 1, by Lumina's cnp_check.py");
}

TEST(RnicWays, AGapMayBeLongerAndALittleShorter) {
    EXPECT_EQ(compared("e810", Way::kCnpGap, 50 * kUs), "as e810");
    EXPECT_EQ(compared("e810", Way::kCnpGap, 40 * kUs), "as e810");
    EXPECT_EQ(compared("e810", Way::kCnpGap, 39 * kUs),
              "differs from e810: at least 50 us, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("connectx", Way::kCnpGap, 500 * kUs), "as connectx");
}

TEST(RnicWays, WhatAProfileDoesNotSayIsNotCompared) {
    EXPECT_EQ(compared("rxe", Way::kCnpGap, 4 * kUs), "nothing");
    EXPECT_EQ(compared("strict", Way::kCnpScope, 1), "nothing");
    std::vector<Measurement> measurements = {{"gap", "4 us", ShownWay{Way::kCnpGap, 4 * kUs}, {}},
                                             {"latency", "1 us", {}, {}},
                                             {"MigReq", "0", ShownWay{Way::kMigReq, 0}, {}}};
    compare(profile("rxe"), measurements);
    EXPECT_FALSE(measurements[0].comparison.has_value());
    EXPECT_FALSE(measurements[1].comparison.has_value());
    ASSERT_TRUE(measurements[2].comparison.has_value());
    EXPECT_TRUE(measurements[2].comparison->agrees);
}

}  // namespace
}  // namespace urnic::conform
