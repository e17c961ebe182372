// A device's behaviour beside that of a profile.
#include "conform/live/compare.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace urnic::conform {
namespace {

constexpr std::uint64_t kUs = 1'000;

const RnicProfile& profile(const char* name) { return *find_rnic_profile(name); }

std::string compared(const char* name, DeviceBehaviour behaviour, std::uint64_t value) {
    const std::optional<Comparison> comparison = compare(profile(name), {behaviour, value});
    return comparison ? comparison->text : "nothing";
}

TEST(RnicWays, ThoseOfTheProfilesAreTheDaemons) {
    for (const RnicProfile& each : rnic_profiles()) {
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kMigReq), each.sends_mig_req ? 1U : 0U) << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kEarlyPackets), each.use_go_back_n ? 0U : 1U)
            << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kRepetition), each.use_go_back_n ? 1U : 0U)
            << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kSourcePort),
                  static_cast<std::uint64_t>(each.source_port_rule));
        const RnicCnpBehaviour cnp = cnp_behaviour(each);
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kCnp), cnp.answers_marks ? 1U : 0U) << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kCnpGap).has_value(), cnp.answers_marks) << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kCnpScope).has_value(), cnp.answers_marks) << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kCnpScopeOfAddresses).has_value(), cnp.answers_marks)
            << each.name;
        EXPECT_EQ(behaviour_of(each, DeviceBehaviour::kCnpOfANak), cnp.nak_triggers_cnp ? 1U : 0U)
            << each.name;
    }
    EXPECT_EQ(behaviour_of(profile("connectx"), DeviceBehaviour::kCnpGap), 4 * kUs);
    EXPECT_EQ(behaviour_of(profile("connectx"), DeviceBehaviour::kCnpScope), 0U);
    EXPECT_EQ(behaviour_of(profile("connectx"), DeviceBehaviour::kCnpScopeOfAddresses), 0U);
    EXPECT_EQ(behaviour_of(profile("connectx"), DeviceBehaviour::kCnpOfANak), 1U);
    EXPECT_EQ(behaviour_of(profile("rxe"), DeviceBehaviour::kAckOfEachRequest), 1U);
    EXPECT_FALSE(behaviour_of(profile("connectx"), DeviceBehaviour::kAckOfEachRequest).has_value());
    EXPECT_EQ(behaviour_of(profile("e810"), DeviceBehaviour::kCnpGap), 50 * kUs);
    EXPECT_EQ(behaviour_of(profile("e810"), DeviceBehaviour::kCnpScope), 1U);
    EXPECT_EQ(behaviour_of(profile("e810"), DeviceBehaviour::kCnpScopeOfAddresses), 1U);
    EXPECT_EQ(find_rnic_profile("mlx5"), nullptr);
}

TEST(RnicWays, AgreementAndDifferenceAreSaidWithTheSource) {
    EXPECT_EQ(compared("connectx", DeviceBehaviour::kMigReq, 1), "as connectx");
    EXPECT_EQ(compared("connectx", DeviceBehaviour::kMigReq, 0), "differs from connectx: 1")
        << "no source is known";
    EXPECT_EQ(compared("rxe", DeviceBehaviour::kMigReq, 1),
              "differs from rxe: 0, by Linux, drivers/infiniband/sw/rxe");
    EXPECT_EQ(compared("e810", DeviceBehaviour::kEarlyPackets, 1),
              "differs from e810: they are discarded, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("strict", DeviceBehaviour::kRepetition, 0),
              "differs from strict: all that follows goes again, by IBA 9.7.5.1.2");
    EXPECT_EQ(compared("rxe", DeviceBehaviour::kSourcePort, kOtherSourcePorts),
              "differs from rxe: as Linux makes them, by Linux, rdma_get_udp_sport()");
    EXPECT_EQ(compared("rxe", DeviceBehaviour::kCnp, 1),
              "differs from rxe: no mark has a CNP, by Linux, drivers/infiniband/sw/rxe");
    EXPECT_EQ(compared("rxe", DeviceBehaviour::kAckOfEachRequest, 1), "as rxe");
    EXPECT_EQ(compared("rxe", DeviceBehaviour::kAckOfEachRequest, 0),
              "differs from rxe: each has an ACK of its own, by Linux, drivers/infiniband/sw/rxe");
    EXPECT_EQ(compared("connectx", DeviceBehaviour::kAckOfEachRequest, 0), "nothing");
    EXPECT_EQ(compared("connectx", DeviceBehaviour::kCnpScope, 1),
              "differs from connectx: one gap for both QPs, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("e810", DeviceBehaviour::kCnpScopeOfAddresses, 0),
              "differs from e810: a gap for each address, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("connectx", DeviceBehaviour::kCnpOfANak, 0),
              "differs from connectx: 1, by Lumina's cnp_check.py");
}

TEST(RnicWays, AGapMayBeLongerAndALittleShorter) {
    EXPECT_EQ(compared("e810", DeviceBehaviour::kCnpGap, 50 * kUs), "as e810");
    EXPECT_EQ(compared("e810", DeviceBehaviour::kCnpGap, 40 * kUs), "as e810");
    EXPECT_EQ(compared("e810", DeviceBehaviour::kCnpGap, 39 * kUs),
              "differs from e810: at least 50 us, by Lumina, SIGCOMM 2023");
    EXPECT_EQ(compared("connectx", DeviceBehaviour::kCnpGap, 500 * kUs), "as connectx");
}

TEST(RnicWays, WhatAProfileDoesNotSayIsNotCompared) {
    EXPECT_EQ(compared("rxe", DeviceBehaviour::kCnpGap, 4 * kUs), "nothing");
    EXPECT_EQ(compared("strict", DeviceBehaviour::kCnpScope, 1), "nothing");
    std::vector<Measurement> measurements = {
        {"gap", "4 us", ShownBehaviour{DeviceBehaviour::kCnpGap, 4 * kUs}, {}},
        {"latency", "1 us", {}, {}},
        {"MigReq", "0", ShownBehaviour{DeviceBehaviour::kMigReq, 0}, {}}};
    compare(profile("rxe"), measurements);
    EXPECT_FALSE(measurements[0].comparison.has_value());
    EXPECT_FALSE(measurements[1].comparison.has_value());
    ASSERT_TRUE(measurements[2].comparison.has_value());
    EXPECT_TRUE(measurements[2].comparison->agrees);
}

}  // namespace
}  // namespace urnic::conform
