// `link_layer` and `lid`: one link layer on each fabric, different LIDs, nothing of Ethernet on InfiniBand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/config/config.h"

namespace urnic::daemon {
namespace {

std::string rnic_text(int number, const std::string& keys, const std::string& fabric = "a") {
    return "[[rnic]]\nname = \"urnic" + std::to_string(number) + "\"\nport = \"fabric\"\nfabric = \"" +
           fabric + "\"\n" + keys + "\n";
}

const std::string kIb = "link_layer = \"infiniband\"\n";

std::vector<std::uint16_t> lids_of(const std::string& text) {
    const auto result = parse_config(text, "f");
    const auto* config = std::get_if<Config>(&result);
    EXPECT_NE(config, nullptr) << std::get<ConfigError>(result).message;
    std::vector<std::uint16_t> lids;
    for (const RnicConfig& rnic : config != nullptr ? config->rnics : std::vector<RnicConfig>{}) {
        EXPECT_EQ(rnic.is_infiniband, rnic.lid != 0);
        lids.push_back(rnic.lid);
    }
    return lids;
}

std::string mistake_in(const std::string& text) {
    const auto result = parse_config(text, "f");
    const auto* error = std::get_if<ConfigError>(&result);
    return error != nullptr ? error->message : "";
}

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LinkLayer, LidsAreGivenOrAssigned) {
    EXPECT_THAT(lids_of(rnic_text(0, "") + rnic_text(1, "link_layer = \"ethernet\"")), ElementsAre(0, 0));
    EXPECT_THAT(lids_of(rnic_text(0, kIb) + rnic_text(1, kIb + "lid = 1") +
                        rnic_text(2, kIb + "lid = 0xbfff") + rnic_text(3, kIb)),
                ElementsAre(2, 1, 0xbfff, 3));
    EXPECT_THAT(lids_of(rnic_text(0, kIb, "a") + rnic_text(1, kIb, "b") + rnic_text(2, "", "c")),
                ElementsAre(1, 1, 0))
        << "each fabric is a subnet";
}

TEST(LinkLayer, Mistakes) {
    EXPECT_THAT(mistake_in(rnic_text(0, "link_layer = \"ib\"")), HasSubstr("must be \"ethernet\" or"));
    EXPECT_THAT(mistake_in(rnic_text(0, "link_layer = 1")), HasSubstr("'link_layer'"));
    for (const char* const lid : {"0", "0xc000", "-1", "\"1\""}) {
        EXPECT_THAT(mistake_in(rnic_text(0, kIb + "lid = " + lid)), HasSubstr("from 1 to 49151")) << lid;
    }
    EXPECT_THAT(mistake_in(rnic_text(0, "lid = 1")), HasSubstr("'lid' goes with link_layer"));
    EXPECT_THAT(mistake_in(rnic_text(0, kIb + "lid = 5") + rnic_text(1, kIb + "lid = 5")),
                HasSubstr("urnic0 and urnic1 have the same 'lid'"));
    EXPECT_THAT(mistake_in(rnic_text(0, kIb) + rnic_text(1, "")), HasSubstr("another 'link_layer' than"));
    EXPECT_THAT(mistake_in("[[rnic]]\nname = \"x\"\nport = \"af_packet\"\ninterface = \"eth0\"\n" + kIb),
                HasSubstr("needs port = \"fabric\""));
    EXPECT_THAT(mistake_in(rnic_text(0, kIb) + rnic_text(1, kIb) + "[[network]]\nfabric = \"a\"\n"),
                HasSubstr("which is Ethernet's"));
}

TEST(LinkLayer, SubnetManager) {
    const std::string external = kIb + "subnet_manager = \"external\"\n";
    EXPECT_EQ(mistake_in(rnic_text(0, external) + rnic_text(1, external)), "");
    const auto parsed = parse_config(rnic_text(0, external) + rnic_text(1, external), "f.toml");
    ASSERT_TRUE(std::holds_alternative<Config>(parsed));
    EXPECT_TRUE(std::get<Config>(parsed).rnics.at(1).has_external_sm);
    EXPECT_EQ(std::get<Config>(parsed).rnics.at(1).lid, 0);
    EXPECT_EQ(mistake_in(rnic_text(0, kIb + "subnet_manager = \"builtin\"\nlid = 3\n")), "");
    EXPECT_THAT(mistake_in(rnic_text(0, kIb + "subnet_manager = \"opensm\"")), HasSubstr("\"builtin\""));
    EXPECT_THAT(mistake_in(rnic_text(0, external + "lid = 1")), HasSubstr("'lid' goes with subnet_manager"));
    EXPECT_THAT(mistake_in(rnic_text(0, "subnet_manager = \"external\"")), HasSubstr("goes with link_layer"));
    EXPECT_THAT(mistake_in(rnic_text(0, external) + rnic_text(1, kIb)),
                HasSubstr("another 'subnet_manager' than"));
}

TEST(LinkLayer, WhatIsOfEthernetAlone) {
    for (const auto& [keys, name] : {std::pair("ipv4 = \"10.0.0.1/24\"", "'ipv4'"),
                                     {"ipv6 = \"fd00::1/64\"", "'ipv6'"},
                                     {"ecn = true", "'ecn'"},
                                     {"udp_checksum = true", "'udp_checksum'"},
                                     {"[[rnic.vlan]]\nid = 7\nipv4 = \"10.0.0.1/24\"", "'vlan'"},
                                     {"[rnic.pfc]\nrx_priorities = [3]", "'pfc'"},
                                     {"[rnic.congestion]\nalgorithm = \"dcqcn\"", "'congestion'"}}) {
        EXPECT_EQ(mistake_in(rnic_text(0, keys)), "") << keys;
        const std::string mistake = mistake_in(rnic_text(0, kIb + keys));
        EXPECT_THAT(mistake, HasSubstr("goes with link_layer = \"ethernet\" alone")) << keys;
        EXPECT_THAT(mistake, HasSubstr(name)) << keys;
    }
}

}  // namespace
}  // namespace urnic::daemon
