// Keys of the configuration that have been renamed: the old name is read with a warning, both are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "daemon/config/config.h"
#include "tests/unit/daemon/config/good_config.h"

namespace urnic::daemon {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kTwoRnics =
    std::string(kRnic) + "[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"lab\"\n";

std::string error_in(const std::string& text) {
    const auto result = parse_config(text, "f");
    return std::holds_alternative<ConfigError>(result) ? std::get<ConfigError>(result).message : "none";
}

TEST(RenamedKeys, AnEmulatedNetwork) {
    const Config old = good("[[wire]]\nfabric = \"lab\"\nlink_mbps = 200\n" + kTwoRnics);
    ASSERT_EQ(old.networks.size(), 1U);
    EXPECT_EQ(old.networks[0].link_rate, 200'000'000U);
    EXPECT_THAT(old.warnings,
                ElementsAre(AllOf(HasSubstr(":1:"), HasSubstr("[[wire]] is called [[network]]"))));

    const Config present = good("[[network]]\nfabric = \"lab\"\nlink_mbps = 200\n" + kTwoRnics);
    ASSERT_EQ(present.networks.size(), 1U);
    EXPECT_EQ(present.networks[0].link_rate, 200'000'000U);
    EXPECT_THAT(present.warnings, IsEmpty());

    EXPECT_THAT(error_in("[[network]]\nfabric = \"lab\"\n[[wire]]\nfabric = \"lab\"\n" + kTwoRnics),
                AllOf(StartsWith("f:3:"), HasSubstr("give [[network]] alone")));
}

TEST(RenamedKeys, DedicatedCores) {
    const auto daemon = [](const std::string& keys) {
        return "[daemon]\nworkers = [0]\n" + keys + "\n" + kTwoRnics;
    };
    const Config old = good(daemon("spin = true"));
    EXPECT_TRUE(old.daemon.has_dedicated_cores);
    EXPECT_THAT(old.warnings, ElementsAre(AllOf(HasSubstr(":3:1: "), HasSubstr("'dedicated_cores'"))));

    const Config present = good(daemon("dedicated_cores = true"));
    EXPECT_TRUE(present.daemon.has_dedicated_cores);
    EXPECT_THAT(present.warnings, IsEmpty());
    EXPECT_FALSE(good(daemon("")).daemon.has_dedicated_cores);

    EXPECT_THAT(error_in(daemon("spin = true\ndedicated_cores = true")),
                AllOf(StartsWith("f:3:1: "), HasSubstr("give 'dedicated_cores' alone")));
    EXPECT_THAT(error_in(daemon("dedicated_cores = true\nspin = true")),
                AllOf(StartsWith("f:4:1: "), HasSubstr("give 'dedicated_cores' alone")));
}

TEST(RenamedKeys, PriorityFlowControl) {
    const auto pfc = [](const std::string& keys) {
        return std::string(kRnic) + "[rnic.pfc]\n" + keys + "\n";
    };
    const Config old = good(pfc("honour = [3]\nsend = [4]"));
    EXPECT_EQ(old.rnics[0].pfc.rx_priorities, 0x08);
    EXPECT_EQ(old.rnics[0].pfc.tx_priorities, 0x10);
    EXPECT_THAT(old.warnings, ElementsAre(HasSubstr("'rx_priorities'"), HasSubstr("'tx_priorities'")));

    const Config present = good(pfc("rx_priorities = [3]\ntx_priorities = [4]"));
    EXPECT_EQ(present.rnics[0].pfc.rx_priorities, 0x08);
    EXPECT_EQ(present.rnics[0].pfc.tx_priorities, 0x10);
    EXPECT_THAT(present.warnings, IsEmpty());

    EXPECT_THAT(error_in(pfc("honour = [3]\nrx_priorities = [3]")), HasSubstr("give 'rx_priorities' alone"));
    EXPECT_THAT(error_in(pfc("send = [3]\ntx_priorities = [3]")), HasSubstr("give 'tx_priorities' alone"));
    EXPECT_EQ(good(pfc("honour = [3]\ntx_priorities = [4]")).warnings.size(), 1U);
}

TEST(RenamedKeys, OneWarningForAKeyHoweverOftenItIsThere) {
    const std::string text = std::string(kRnic) +
                             "[rnic.pfc]\nhonour = [3]\n[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = "
                             "\"lab\"\n[rnic.pfc]\nhonour = [4]\n";
    const Config config = good(text);
    EXPECT_EQ(config.rnics[0].pfc.rx_priorities, 0x08);
    EXPECT_EQ(config.rnics[1].pfc.rx_priorities, 0x10);
    EXPECT_EQ(config.warnings.size(), 1U);
}

TEST(RenamedKeys, AMistakeInTheValueIsShownUnderTheNewName) {
    EXPECT_THAT(error_in(std::string(kRnic) + "[rnic.pfc]\nhonour = [8]\n"),
                AllOf(StartsWith("f:6:"), HasSubstr("'rx_priorities' in [rnic.pfc] must be")));
    EXPECT_THAT(error_in("wire = 1\n" + kTwoRnics),
                HasSubstr("'network' in the file must be tables: [[network]]"));
    EXPECT_THAT(error_in("[[daemon]]\nspin = true\n" + kTwoRnics),
                HasSubstr("'daemon' in the file must be a table: [daemon]"));
}

}  // namespace
}  // namespace urnic::daemon
