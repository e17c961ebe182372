// The configuration of emulated wires and of priority flow control.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "daemon/config/config.h"
#include "tests/unit/daemon/config/good_config.h"

namespace urnic::daemon {
namespace {

using testing::HasSubstr;

TEST(NetworkConfig, PriorityFlowControlOfAnRnic) {
    const Config config =
        good(std::string(kRnic) +
             "[rnic.pfc]\nrx_priorities = [0, 7]\nlink_mbps = 25000\nwatchdog_ms = 0\ntx_priorities = "
             "[3]\nxoff_frames = 9\n"
             "xon_frames = 8\n[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"lab\"\n");
    const PfcSettings& pfc = config.rnics[0].pfc;
    EXPECT_EQ(pfc.rx_priorities, 0x81);
    EXPECT_EQ(pfc.link_bits_per_second, 25'000'000'000U);
    EXPECT_EQ(pfc.watchdog_ns, 0U);
    EXPECT_EQ(pfc.tx_priorities, 0x08);
    EXPECT_EQ(pfc.xoff_frames, 9U);
    EXPECT_EQ(pfc.xon_frames, 8U);
    EXPECT_EQ(config.rnics[1].pfc.rx_priorities, 0);
    EXPECT_EQ(config.rnics[1].pfc.tx_priorities, 0);
    EXPECT_EQ(good(std::string(kRnic) + "[rnic.pfc]\nrx_priorities = []\n").rnics[0].pfc.rx_priorities, 0);
}

TEST(NetworkConfig, AnRnicHeedsTheSwitchOfItsNetwork) {
    const Config config =
        good(std::string(kRnic) +
             "[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"lab\"\n[rnic.pfc]\nrx_priorities = [1]\n"
             "[[network]]\nfabric = \"lab\"\npfc = [3]\n");
    EXPECT_EQ(config.rnics[0].pfc.rx_priorities, 0x08);
    EXPECT_EQ(config.rnics[1].pfc.rx_priorities, 0x02) << "as it says itself";
}

TEST(NetworkConfig, AnRnicOnAnEmulatedWireAsksForAPauseBeforeItsRingIsFull) {
    const auto read = [](const char* pfc) {
        return parse_config(std::string(kRnic) + "[rnic.pfc]\ntx_priorities = [3]\n" + pfc +
                                "[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"lab\"\n"
                                "[[network]]\nfabric = \"lab\"\n",
                            "f");
    };
    for (const char* wrong : {"", "xoff_frames = 256\n"}) {
        const auto result = read(wrong);
        ASSERT_TRUE(std::holds_alternative<ConfigError>(result)) << wrong;
        EXPECT_THAT(std::get<ConfigError>(result).message, HasSubstr("must not be more than 255"));
    }
    const auto result = read("xoff_frames = 255\n");
    ASSERT_TRUE(std::holds_alternative<Config>(result));
    EXPECT_EQ(std::get<Config>(result).rnics[0].pfc.tx_priorities, 0x08);
}

TEST(NetworkConfig, AnEmulatedWire) {
    const std::string pair =
        std::string(kRnic) + "[[rnic]]\nname = \"urnic1\"\nport = \"fabric\"\nfabric = \"lab\"\n";
    const Config config = good(
        "[[network]]\nfabric = \"lab\"\ntopology = \"star\"\nlink_mbps = 200\ndelay_us = 2.5\nbuffer_bytes = "
        "400000\n"
        "ecn_kmin_bytes = 40000\necn_kmax_bytes = 200000\necn_pmax = 0.25\n" +
        pair);
    ASSERT_EQ(config.networks.size(), 1U);
    const NetworkConfig& wire = config.networks[0];
    EXPECT_EQ(wire.link_rate, 200'000'000U);
    EXPECT_EQ(wire.delay_ns, 2'500U);
    EXPECT_EQ(wire.buffer_bytes, 400'000U);
    EXPECT_EQ(wire.ecn_kmin_bytes, 40'000U);
    EXPECT_EQ(wire.ecn_kmax_bytes, 200'000U);
    EXPECT_EQ(wire.ecn_pmax, 0.25);

    const std::pair<const char*, const char*> mistakes[] = {
        {"link_mbps = 100", "this [[network]] has no 'fabric'; there are: \"lab\""},
        {"fabric = \"lap\"", "'fabric' is \"lap\"; it must be one that RNICs are on: \"lab\""},
        {"fabric = \"lab\"\nlink_mbps = 0", "'link_mbps' in [[network]] must be a number from 1 to 100000"},
        {"fabric = \"lab\"\nlink_mbps = nan", "'link_mbps' in [[network]] must be a number from 1 to 100000"},
        {"fabric = \"lab\"\nlink_mbps = \"fast\"",
         "'link_mbps' in [[network]] must be a number from 1 to 100000"},
        {"fabric = \"lab\"\ndelay_us = 1e9", "'delay_us' in [[network]] must be a number from 0 to 100000"},
        {"fabric = \"lab\"\nbuffer_bytes = 1000",
         "'buffer_bytes' in [[network]] must be a whole number from 16384 to 4194304"},
        {"fabric = \"lab\"\necn_pmax = 1.5", "'ecn_pmax' in [[network]] must be a number from 0 to 1"},
        {"fabric = \"lab\"\necn_kmin_bytes = 9", "'ecn_kmin_bytes' needs 'ecn_kmax_bytes'"},
        {"fabric = \"lab\"\necn_kmin_bytes = 9\necn_kmax_bytes = 9", "must be less than 'ecn_kmax_bytes'"},
        {"fabric = \"lab\"\nbuffer_bytes = 20000\necn_kmin_bytes = 20000\necn_kmax_bytes = 30000",
         "must be less than 'buffer_bytes', which is 20000"},
        {"fabric = \"lab\"\ntopology = \"ring\"",
         R"('topology' in [[network]] must be "star", "dumbbell", "parking-lot" or "leaf-spine", not "ring")"},
        {"fabric = \"lab\"\nspeed = 1",
         "unknown key 'speed' in [[network]]; allowed: fabric, topology, switches, leaves"},
        {"fabric = \"lab\"\nweights = [1, 2]", "must be a list of 8 whole numbers from 0 to 1000"},
        {"fabric = \"lab\"\nweights = [1, 2, 3, 4, 5, 6, 7, -1]",
         "'weights' in [[network]] must be a list of 8 whole numbers"},
        {"fabric = \"lab\"\nspines = 2", "'spines' is of no use with topology = \"star\""},
        {"fabric = \"lab\"\ntrunk_mbps = 10", "'trunk_mbps' is of no use with topology = \"star\""},
        {"fabric = \"lab\"\ntopology = \"dumbbell\"\nswitches = 2", "'switches' is of no use"},
        {"fabric = \"lab\"\ntopology = \"parking-lot\"", "topology = \"parking-lot\" needs 'switches'"},
        {"fabric = \"lab\"\ntopology = \"parking-lot\"\nswitches = 3",
         "2 RNICs cannot be spread evenly over 3 switches"},
        {"fabric = \"lab\"\ntopology = \"leaf-spine\"\nleaves = 2", "needs 'leaves' and 'spines'"},
        {"fabric = \"lab\"\ntopology = \"leaf-spine\"\nspines = 2", "needs 'leaves'"},
        {"fabric = \"lab\"\npfc = [8]",
         "'pfc' in [[network]] must be a list of different priorities from 0 to 7"},
        {"fabric = \"lab\"\nxoff_bytes = 9000", "'xoff_bytes' needs 'pfc'"},
        {"fabric = \"lab\"\npfc = [3]\nxoff_bytes = 9000\nxon_bytes = 9000", "'xon_bytes' must be less than"},
        {"fabric = \"lab\"\npfc = [3]\nxoff_bytes = 0",
         "'xon_bytes' must be less than 'xoff_bytes', which is 0"},
        {"fabric = \"lab\"\npfc = [3]\nxoff_bytes = 2000000",
         "'xoff_bytes' must be less than 'buffer_bytes'"},
        {"fabric = \"lab\"\npfc = [3]\nwatchdog_ms = -1",
         "'watchdog_ms' in [[network]] must be a whole number from 0"},
        {"fabric = \"lab\"\n[[network]]\nfabric = \"lab\"", "the fabric \"lab\" has a [[network]] already"},
    };
    for (const auto& [text, said] : mistakes) {
        const auto result = parse_config(pair + "[[network]]\n" + text + "\n", "f");
        const auto* error = std::get_if<ConfigError>(&result);
        ASSERT_NE(error, nullptr) << text;
        EXPECT_THAT(error->message, HasSubstr(said)) << text;
    }
    const auto alone = parse_config(std::string(kRnic) + "[[network]]\nfabric = \"lab\"\n", "f");
    ASSERT_NE(std::get_if<ConfigError>(&alone), nullptr);
    EXPECT_THAT(std::get<ConfigError>(alone).message,
                HasSubstr("has one RNIC: a [[network]] needs two or more"));
}

TEST(NetworkConfig, AnEmulatedNetworkOfSeveralSwitches) {
    std::string rnics = kRnic;
    for (const char* name : {"b", "c", "d"}) {
        rnics += std::string("[[rnic]]\nname = \"") + name + "\"\nport = \"fabric\"\nfabric = \"lab\"\n";
    }
    const auto wire = [&](const char* text) {
        return good(rnics + "[[network]]\nfabric = \"lab\"\n" + text).networks.at(0);
    };
    const NetworkConfig star = wire("");
    EXPECT_EQ(star.switches, 1U);
    EXPECT_EQ(star.pfc.lossless, 0U);
    EXPECT_EQ(star.weights, (std::array<std::uint32_t, 8>{}));
    const NetworkConfig dumbbell = wire("topology = \"dumbbell\"\ntrunk_mbps = 50\ntrunk_delay_us = 7\n");
    EXPECT_EQ(dumbbell.shape, NetworkShape::kDumbbell);
    EXPECT_EQ(dumbbell.switches, 2U);
    EXPECT_EQ(dumbbell.trunk_rate, 50'000'000U);
    EXPECT_EQ(dumbbell.trunk_delay_ns, 7'000U);
    EXPECT_EQ(wire("topology = \"parking-lot\"\nswitches = 4\n").switches, 4U);
    const NetworkConfig leaves = wire(
        "topology = \"leaf-spine\"\nleaves = 2\nspines = 3\nweights = [1, 2, 0, 0, 0, 0, 0, 9]\npfc = [3]\n"
        "xoff_bytes = 9000\nxon_bytes = 8000\nheadroom_bytes = 7000\nwatchdog_ms = 6\n");
    EXPECT_EQ(leaves.shape, NetworkShape::kLeafSpine);
    EXPECT_EQ(leaves.switches, 2U);
    EXPECT_EQ(leaves.spines, 3U);
    EXPECT_EQ(leaves.weights, (std::array<std::uint32_t, 8>{1, 2, 0, 0, 0, 0, 0, 9}));
    EXPECT_EQ(leaves.pfc.lossless, 0x08);
    EXPECT_EQ(leaves.pfc.xoff_bytes, 9'000U);
    EXPECT_EQ(leaves.pfc.xon_bytes, 8'000U);
    EXPECT_EQ(leaves.pfc.headroom_bytes, 7'000U);
    EXPECT_EQ(leaves.pfc.watchdog_ns, 6'000'000U);
    const NetworkConfig defaults = wire("pfc = [0]\n");
    EXPECT_EQ(defaults.pfc.xoff_bytes, 250'000U);
    EXPECT_EQ(defaults.pfc.xon_bytes, 225'000U);
    EXPECT_EQ(defaults.pfc.headroom_bytes, 100'000U);
}

}  // namespace
}  // namespace urnic::daemon
