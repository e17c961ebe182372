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
}

std::string network_text(const std::string& keys) {
    return rnic_text(0, kIb) + rnic_text(1, kIb) + "[[network]]\nfabric = \"a\"\n" + keys + "\n";
}

TEST(LinkLayer, ANetwork) {
    const auto result = parse_config(
        network_text("lmc = 2\nvls = 4\nsl_to_vl = [0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 15]\n"
                     "vl_high = [[3, 8]]\nvl_low = [[0, 64], [1, 192]]\nvl_high_limit = 2\n"
                     "vl_buffer_bytes = 8192\nhoq_life = 10\nswitch_life = 20\nlink_mbps = 100"),
        "f");
    const auto* config = std::get_if<Config>(&result);
    ASSERT_NE(config, nullptr) << std::get<ConfigError>(result).message;
    EXPECT_EQ(config->rnics[0].lid, 4);
    EXPECT_EQ(config->rnics[1].lid, 8);
    EXPECT_EQ(config->rnics[1].lmc, 2);
    const SubnetConfig& subnet = config->networks.at(0).subnet;
    EXPECT_EQ(subnet.vls, 4);
    EXPECT_EQ(subnet.sl_to_vl.value()[15], 15);
    EXPECT_EQ(subnet.vl_high.value()[0], (netsim::VlArbitrationEntry{3, 8}));
    EXPECT_EQ(subnet.vl_low.value()[1], (netsim::VlArbitrationEntry{1, 192}));
    EXPECT_EQ(subnet.vl_low.value()[2], (netsim::VlArbitrationEntry{}));
    EXPECT_EQ(subnet.vl_high_limit, 2);
    EXPECT_EQ(subnet.vl_buffer_bytes, 8192U);
    EXPECT_EQ(subnet.hoq_life, 10);
    EXPECT_EQ(subnet.switch_life, 20);
}

TEST(LinkLayer, MistakesInANetwork) {
    for (const auto& [keys, what] :
         {std::pair("lmc = 8", "from 0 to 7"),
          {"vls = 3", "1, 2, 4, 8 or 15"},
          {"sl_to_vl = [0, 1]", "a list of 16 whole numbers from 0 to 15, of SL 0 first"},
          {"vls = 2\nsl_to_vl = [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]", "names VL 2"},
          {"vl_high = [[15, 1]]", "from 0 to 14"},
          {"vl_low = [[1, 256]]", "from 0 to 255"},
          {"vl_low = [1, 2]", "pairs of a VL"},
          {"vl_buffer_bytes = 4096", "from 4224 to 131072"},
          {"hoq_life = 32", "from 0 to 31"},
          {"idle_hosts = 1", "goes with subnet_manager = \"external\""},
          {"pfc = [3]", "'pfc' is for RNICs with link_layer = \"ethernet\""},
          {"buffer_bytes = 100000", "'buffer_bytes' is for RNICs"},
          {"ecn_kmax_bytes = 1000", "'ecn_kmax_bytes' is for RNICs"}}) {
        EXPECT_THAT(mistake_in(network_text(keys)), HasSubstr(what)) << keys;
    }
    EXPECT_THAT(mistake_in(rnic_text(0, "") + rnic_text(1, "") + "[[network]]\nfabric = \"a\"\nlmc = 1\n"),
                HasSubstr("'lmc' is for RNICs with link_layer = \"infiniband\""));
    const std::string external = kIb + "subnet_manager = \"external\"";
    const std::string managed =
        rnic_text(0, external) + rnic_text(1, external) + "[[network]]\nfabric = \"a\"\n";
    EXPECT_EQ(mistake_in(managed), "");
    EXPECT_THAT(mistake_in(managed + "lmc = 1\n"), HasSubstr("which chooses the LMC"));
    EXPECT_EQ(mistake_in(managed + "idle_hosts = 126\n"), "");
    EXPECT_THAT(mistake_in(managed + "idle_hosts = 127\n"), HasSubstr("from 0 to 126"));
    EXPECT_THAT(mistake_in(rnic_text(0, kIb + "lid = 5") + rnic_text(1, kIb) +
                           "[[network]]\nfabric = \"a\"\nlmc = 1\n"),
                HasSubstr("must be a multiple of 2"));
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

/// Two of one GUID are refused where a person writes them by mistake, and named where he wants to see them.
TEST(LinkLayer, DuplicateGuids) {
    const std::string mac = "mac = \"02:00:00:00:00:07\"\n";
    EXPECT_THAT(
        mistake_in(rnic_text(0, kIb + mac) + rnic_text(1, kIb + mac)),
        HasSubstr("'mac' is the same as that of the [[rnic]] in line 1; each must be different, for the "
                  "GUID is made from it"));
    const std::string external = kIb + "subnet_manager = \"external\"\n";
    const std::string duplicate = external + "duplicate_guid_of = \"urnic0\"\n";
    const auto parsed = parse_config(rnic_text(0, external) + rnic_text(1, duplicate), "f.toml");
    ASSERT_TRUE(std::holds_alternative<Config>(parsed));
    EXPECT_EQ(std::get<Config>(parsed).rnics.at(1).duplicate_guid_of, "urnic0");
    EXPECT_EQ(std::get<Config>(parsed).rnics.at(0).duplicate_guid_of, "");
    const std::string other_fabric = "must name another [[rnic]] on fabric \"a\"";
    EXPECT_THAT(
        mistake_in(rnic_text(0, external) + rnic_text(1, external + "duplicate_guid_of = \"eth0\"\n")),
        HasSubstr(other_fabric));
    EXPECT_THAT(mistake_in(rnic_text(0, duplicate)), HasSubstr(other_fabric)) << "itself";
    EXPECT_THAT(mistake_in(rnic_text(0, external, "b") + rnic_text(1, duplicate)), HasSubstr(other_fabric));
    EXPECT_THAT(mistake_in(rnic_text(0, external) + rnic_text(1, duplicate) +
                           rnic_text(2, external + "duplicate_guid_of = \"urnic1\"\n")),
                HasSubstr("names urnic1, which has the key itself: name urnic0"));
    EXPECT_THAT(mistake_in(rnic_text(0, kIb) + rnic_text(1, kIb + "duplicate_guid_of = \"urnic0\"\n")),
                HasSubstr("goes with subnet_manager = \"external\""));
}

TEST(LinkLayer, StandaloneHasLidsAndAddresses) {
    const Config config = standalone_config("/tmp/x", true);
    ASSERT_EQ(config.rnics.size(), 2U);
    for (std::uint16_t i = 0; i < 2; ++i) {
        const RnicConfig& rnic = config.rnics[i];
        EXPECT_TRUE(rnic.is_infiniband);
        EXPECT_FALSE(rnic.has_external_sm);
        EXPECT_EQ(rnic.lid, i + 1);
        ASSERT_TRUE(rnic.ipv4.has_value());
        EXPECT_EQ(rnic.ipv4->back(), i + 1);
    }
}

/// By which librdmacm knows the port.
TEST(LinkLayer, InfiniBandHasAddresses) {
    EXPECT_EQ(mistake_in(rnic_text(0, kIb + "ipv4 = \"10.0.0.1/24\"\nipv6 = \"fd00::1/64\"")), "");
    EXPECT_THAT(mistake_in(rnic_text(0, kIb + "ipv4 = \"10.0.0.1/24\"") +
                           rnic_text(1, kIb + "ipv4 = \"10.0.0.1/24\"")),
                HasSubstr("'ipv4' is the same"));
}

TEST(LinkLayer, WhatIsOfEthernetAlone) {
    for (const auto& [keys, name] :
         {std::pair("ecn = true", "'ecn'"),
          {"ipv4 = \"10.0.0.1/24\"\ngateway = \"10.0.0.254\"", "'gateway'"},
          {"ipv4 = \"10.0.0.1/24\"\nroutes = [\"10.1.0.0/16 via 10.0.0.254\"]", "'routes'"},
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
