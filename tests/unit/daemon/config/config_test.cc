#include "daemon/config/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/address_text.h"
#include "daemon/config/values.h"
#include "tests/unit/daemon/config/good_config.h"

namespace urnic::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Config, EverythingSet) {
    const Config config = good(R"(
[daemon]
run_dir = "/tmp/urnic-test"
socket_mode = "0666"
socket_group = "rdma"
user = "urnic"
seccomp = false
http = "8471"
histograms = true
workers = [2, 3]
hugepages = false
eal_args = ["-m", "512"]
copied_memory = "all"
[daemon.limits]
max_qps = 10
max_registered_bytes = 1099511627776
[daemon.limits.per_uid]
max_qps = 11
max_descriptors = 500
max_ring_bytes = 5368709120

[[rnic]]
name = "urnic0"
port = "fabric"
fabric = "lab"
mac = "02:00:00:00:00:0a"
ipv4 = "10.0.0.1/8"
ipv6 = "fd00::1/64"

[[rnic]]
name = "nic"
port = "pci"
device = "0000:01:00.0"

[[rnic]]
name = "virt"
port = "vdev"
device = "net_af_packet0,iface=eth1"
)");
    EXPECT_EQ(config.daemon.run_dir, "/tmp/urnic-test");
    EXPECT_EQ(config.daemon.socket_mode, 0666U);
    EXPECT_EQ(config.daemon.socket_group, "rdma");
    EXPECT_EQ(config.daemon.user, "urnic");
    EXPECT_EQ(config.daemon.seccomp, false);
    EXPECT_TRUE(config.daemon.has_histograms);
    EXPECT_EQ(config.daemon.worker_cpus, (std::vector<int>{2, 3}));
    EXPECT_FALSE(uses_hugepages(config)) << "though a port is a NIC";
    EXPECT_TRUE(config.daemon.limits.copied_memory_for_all);
    EXPECT_EQ(config.daemon.eal_args, (std::vector<std::string>{"-m", "512"}));
    EXPECT_EQ(config.daemon.limits.max_qps, 10U);
    EXPECT_EQ(config.daemon.limits.max_registered_bytes, 1ULL << 40U);
    EXPECT_EQ(config.daemon.limits.per_uid[Resource::kQps], 11U);
    EXPECT_EQ(config.daemon.limits.per_uid[Resource::kDescriptors], 500U);
    EXPECT_EQ(config.daemon.limits.per_uid[Resource::kCqs], 4096U) << "the default";
    EXPECT_EQ(config.daemon.limits.per_uid[ByteResource::kRings], 5ULL << 30U);
    EXPECT_EQ(config.daemon.limits.per_uid[ByteResource::kDeviceMemory], 256U << 20U) << "the default";
    EXPECT_EQ(config.daemon.limits.per_uid[ByteResource::kRegistered], 0U) << "the machine's memory";
    ASSERT_EQ(config.rnics.size(), 3U);
    EXPECT_EQ(mac_text(*config.rnics[0].mac), "02:00:00:00:00:0a");
    EXPECT_EQ(*config.rnics[0].ipv4, (wire::Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}));
    EXPECT_EQ((*config.rnics[0].ipv6)[0], 0xfd);
    EXPECT_EQ(config.rnics[1].port, PortKind::kPci);
    EXPECT_EQ(config.rnics[1].port_device, "0000:01:00.0");
    EXPECT_FALSE(config.rnics[1].mac);
    EXPECT_EQ(config.rnics[2].port, PortKind::kVdev);
}

TEST(Config, AddressesOfVlans) {
    const Config config = good(
        "[[rnic]]\nname = \"a\"\nport = \"af_packet\"\ninterface = \"eth0\"\nmac = \"02:00:00:00:00:0a\"\n"
        "[[rnic.vlan]]\nid = 7\nipv4 = \"10.7.0.1/24\"\ngateway = \"10.7.0.254\"\n"
        "[[rnic.vlan]]\nid = 4094\nipv6 = \"fd00::1/64\"\n"
        "[[rnic]]\nname = \"b\"\nport = \"af_packet\"\ninterface = \"eth0\"\n");
    ASSERT_EQ(config.rnics.size(), 2U);
    const std::vector<LinkConfig>& vlans = config.rnics[0].vlans;
    ASSERT_EQ(vlans.size(), 2U);
    EXPECT_EQ(vlans[0].vlan, 7U);
    EXPECT_EQ(vlans[0].ipv4, parse_ipv4("10.7.0.1"));
    ASSERT_EQ(vlans[0].routes.size(), 2U);
    ASSERT_NE(find_route(vlans[0].routes, *parse_ipv4("11.0.0.1")), nullptr);
    EXPECT_EQ(find_route(vlans[0].routes, *parse_ipv4("11.0.0.1"))->via, parse_ipv4("10.7.0.254"));
    EXPECT_FALSE(find_route(vlans[0].routes, *parse_ipv4("10.7.0.99"))->via);
    EXPECT_EQ(vlans[1].vlan, 4094U);
    EXPECT_EQ(vlans[1].ipv6, parse_ipv6("fd00::1"));
    EXPECT_TRUE(config.rnics[0].routes.empty()) << "they are of the VLAN";
    EXPECT_FALSE(borrows_addresses(config.rnics[0]));
    EXPECT_TRUE(borrows_addresses(config.rnics[1]));
}

TEST(Config, CongestionControlOfAnRnic) {
    const Config config = good(std::string(kRnic) +
                               "[rnic.congestion]\nalgorithm = \"dcqcn\"\nline_rate_mbps = 1000.5\n"
                               "profile = \"connectx\"\ncnp_dscp = 40\nclamp_tgt_rate = true\n"
                               "[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"lab\"\n");
    const congestion::Settings& settings = config.rnics[0].congestion;
    EXPECT_EQ(settings.rate.algorithm, congestion::Algorithm::kDcqcn);
    EXPECT_EQ(settings.rate.line_rate, 1'000'500'000U);
    EXPECT_EQ(settings.min_time_between_cnps_ns, 4000U);
    EXPECT_EQ(settings.cnp_dscp, 40);
    EXPECT_TRUE(settings.rate.dcqcn.clamp_tgt_rate);
    EXPECT_TRUE(settings.cnp_enabled);
    EXPECT_EQ(config.rnics[1].congestion, congestion::default_settings());
}

TEST(Config, FormerNamesOfCongestionSettingsAreReadWithOneWarning) {
    const std::string text =
        std::string(kRnic) + "[rnic.congestion]\nalgorithm = \"dcqcn\"\ncnp_gap_us = 7\ncut_window_us = 9\n";
    const Config config = good(text);
    EXPECT_EQ(config.rnics[0].congestion.min_time_between_cnps_ns, 7000U);
    EXPECT_EQ(config.rnics[0].congestion.rate.dcqcn.rate_reduce_monitor_period_ns, 9000U);
    EXPECT_THAT(
        config.warnings,
        testing::ElementsAre(StartsWith("test.toml:7:1: 'cnp_gap_us' in [rnic.congestion] is called "
                                        "'min_time_between_cnps_us' now"),
                             StartsWith("test.toml:8:1: 'cut_window_us' in [rnic.congestion] is called "
                                        "'rate_reduce_monitor_period_us' now")));
    const auto both = parse_config(text + "min_time_between_cnps_us = 7\n", "f");
    EXPECT_THAT(std::get<ConfigError>(both).message,
                AllOf(StartsWith("f:7:1: "), HasSubstr("give 'min_time_between_cnps_us' alone")));
}

TEST(Config, DefaultsAreThoseOfTheHelpText) {
    const Config config = good(kRnic);
    const PfcSettings& pfc = config.rnics[0].pfc;
    EXPECT_EQ(pfc.rx_priorities, 0);
    EXPECT_EQ(pfc.link_bits_per_second, 10'000'000'000U);
    EXPECT_EQ(pfc.watchdog_ns, 200'000'000U);
    EXPECT_EQ(pfc.tx_priorities, 0);
    EXPECT_EQ(pfc.xoff_frames, 512U);
    EXPECT_EQ(pfc.xon_frames, 64U);
    EXPECT_EQ(config.daemon.run_dir, "/run/urnic");
    EXPECT_EQ(config.daemon.socket_mode, 0660U);
    EXPECT_FALSE(uses_hugepages(config));
    EXPECT_EQ(config.daemon.worker_cpus.size(), 1U);
    EXPECT_TRUE(config.rnics[0].mac) << "an RNIC on a fabric gets a MAC of its own";
}

TEST(Config, HugePagesAreForNics) {
    const std::string nic = "[[rnic]]\nname = \"nic\"\nport = \"pci\"\ndevice = \"0000:01:00.0\"\n";
    const std::string others =
        "[[rnic]]\nname = \"v\"\nport = \"vdev\"\ndevice = \"net_null0\"\n"
        "[[rnic]]\nname = \"p\"\nport = \"af_packet\"\ninterface = \"eth1\"\n"
        "[[rnic]]\nname = \"m\"\nport = \"memif\"\nsocket = \"/run/m.sock\"\nrole = \"server\"\n";
    EXPECT_FALSE(uses_hugepages(good(kRnic + others)));
    EXPECT_TRUE(uses_hugepages(good(kRnic + others + nic)));
    EXPECT_TRUE(uses_hugepages(good("[daemon]\nhugepages = true\n" + others)));
    EXPECT_FALSE(uses_hugepages(good("[daemon]\nhugepages = false\n" + nic)));
}

TEST(Config, AWorkerCountLeavesTheCpusToTheScheduler) {
    EXPECT_EQ(good(std::string("[daemon]\nworkers = 3\n") + kRnic).daemon.worker_cpus,
              (std::vector<int>{-1, -1, -1}));
}

TEST(Config, MadeUpMacsAvoidThoseInUse) {
    const Config config = good(
        "[[rnic]]\nname = \"a\"\nport = \"fabric\"\nfabric = \"x\"\n"
        "[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"x\"\nmac = \"02:00:c6:12:00:01\"\n");
    EXPECT_NE(config.rnics[0].mac, config.rnics[1].mac);
}

struct BadCase {
    const char* what;
    std::string text;
    const char* where;  // file:line: at the front of the message
    const char* says;
};

class ConfigMistake : public testing::TestWithParam<BadCase> {};

TEST_P(ConfigMistake, NamesFileLineAndWhatIsAllowed) {
    const auto result = parse_config(GetParam().text, "test.toml");
    const auto* error = std::get_if<ConfigError>(&result);
    ASSERT_NE(error, nullptr) << "was accepted";
    EXPECT_THAT(error->message, StartsWith(GetParam().where));
    EXPECT_THAT(error->message, HasSubstr(GetParam().says));
}

std::string daemon(const std::string& line) { return "[daemon]\n" + line + "\n" + kRnic; }
std::string port(const std::string& lines) { return "[[rnic]]\nname = \"a\"\n" + lines + "\n"; }
std::string rnic(const std::string& line) { return kRnic + line + "\n"; }

INSTANTIATE_TEST_SUITE_P(
    Cases, ConfigMistake,
    testing::Values(
        BadCase{"not_toml", "[daemon\n", "test.toml:1:", "not valid TOML"},
        BadCase{"unclosed_string", "[daemon]\nrun_dir = \"x\n", "test.toml:2:", "not valid TOML"},
        BadCase{"empty", "", "test.toml:1:", "[[rnic]]"},
        BadCase{"unknown_section", std::string("[demon]\n") + kRnic, "test.toml:1:", "[daemon]"},
        BadCase{"rnic_is_no_list", "[rnic]\nname = \"a\"\n", "test.toml:1:", "double brackets"},
        BadCase{"unknown_daemon_key", daemon("rundir = \"/x\""),
                "test.toml:2:", "allowed: run_dir, socket_mode"},
        BadCase{"unknown_rnic_key", rnic("speed = 100"), "test.toml:5:", "allowed: name, port"},
        BadCase{"unknown_limit", std::string("[daemon.limits]\nmax_qp = 4\n") + kRnic,
                "test.toml:2:", "allowed: max_qps"},
        BadCase{"histograms_alone", daemon("histograms = true"), "test.toml:1:", "'histograms' needs 'http'"},
        BadCase{"congestion_setting", rnic("[rnic.congestion]\nalgorithm = \"dcqcn\"\ncnp_scope = \"qp\""),
                "test.toml:7:", "one of flow, ip-pair, dst-ip, port"},
        BadCase{"congestion_range", rnic("[rnic.congestion]\nline_rate_mbps = 0.5"),
                "test.toml:6:", "from 1 to"},
        BadCase{"congestion_type", rnic("[rnic.congestion]\ncnp = [1]"), "test.toml:6:", "string"},
        BadCase{"congestion_key", rnic("[rnic.congestion]\nlinerate = 1"),
                "test.toml:6:", "unknown setting 'linerate'; allowed: algorithm"},
        BadCase{"congestion_timely", rnic("[rnic.congestion]\ntimely_low_us = 501"),
                "test.toml:", "must not be more than timely_high_us"},
        BadCase{"congestion_no_table", rnic("congestion = 1"), "test.toml:5:", "[rnic.congestion]"},
        BadCase{"congestion_contradiction",
                rnic("[rnic.congestion]\nincrease_bytes = 0\nincrease_period_us = 0"),
                "test.toml:5:", "no rate would ever rise"},
        BadCase{"pfc_no_table", rnic("pfc = 1"), "test.toml:5:", "[rnic.pfc]"},
        BadCase{"pfc_key", rnic("[rnic.pfc]\nlink = 1"), "test.toml:6:", "allowed: rx_priorities, link_mbps"},
        BadCase{"pfc_rx_priorities", rnic("[rnic.pfc]\nrx_priorities = true"),
                "test.toml:6:", "different priorities"},
        BadCase{"pfc_priority_8", rnic("[rnic.pfc]\nrx_priorities = [8]"), "test.toml:6:", "from 0 to 7"},
        BadCase{"pfc_priority_below", rnic("[rnic.pfc]\nrx_priorities = [-1]"),
                "test.toml:6:", "from 0 to 7"},
        BadCase{"pfc_priority_twice", rnic("[rnic.pfc]\ntx_priorities = [3, 3]"),
                "test.toml:6:", "different priorities"},
        BadCase{"pfc_priority_text", rnic("[rnic.pfc]\ntx_priorities = [\"3\"]"),
                "test.toml:6:", "different priorities"},
        BadCase{"pfc_link", rnic("[rnic.pfc]\nlink_mbps = 0"), "test.toml:6:", "from 1 to 1000000"},
        BadCase{"pfc_watchdog", rnic("[rnic.pfc]\nwatchdog_ms = 60001"), "test.toml:6:", "from 0 to 60000"},
        BadCase{"pfc_xoff_zero", rnic("[rnic.pfc]\ntx_priorities = [3]\nxoff_frames = 0"),
                "test.toml:7:", "from 1 to 65535"},
        BadCase{"pfc_xon_above", rnic("[rnic.pfc]\ntx_priorities = [3]\nxon_frames = 512"),
                "test.toml:5:", "must be less than 'xoff_frames' (512)"},
        BadCase{"pfc_xoff_without_tx_priorities", rnic("[rnic.pfc]\nxoff_frames = 600"),
                "test.toml:5:", "need 'tx_priorities'"},
        BadCase{"limit_of_zero", std::string("[daemon.limits]\nmax_qps = 0\n") + kRnic,
                "test.toml:2:", "from 1 to 16384"},
        BadCase{"limit_too_large", std::string("[daemon.limits]\nmax_qps = 16385\n") + kRnic,
                "test.toml:2:", "from 1 to 16384"},
        BadCase{"unknown_user_limit", std::string("[daemon.limits.per_uid]\nmax_qp = 4\n") + kRnic,
                "test.toml:2:", "allowed: max_connections, max_descriptors"},
        BadCase{"user_limit_of_zero", std::string("[daemon.limits.per_uid]\nmax_qps = 0\n") + kRnic,
                "test.toml:2:", "'max_qps'"},
        BadCase{"user_bytes_of_zero",
                std::string("[daemon.limits.per_uid]\nmax_registered_bytes = 0\n") + kRnic,
                "test.toml:2:", "'max_registered_bytes'"},
        BadCase{"user_limits_no_table", std::string("[daemon.limits]\nper_uid = 4\n") + kRnic,
                "test.toml:2:", "[daemon.limits.per_uid]"},
        BadCase{"limits_no_table", daemon("limits = 3"), "test.toml:2:", "[daemon.limits]"},
        BadCase{"relative_run_dir", daemon("run_dir = \"run\""), "test.toml:2:", "absolute path"},
        BadCase{"long_run_dir", daemon("run_dir = \"/" + std::string(100, 'x') + "\""),
                "test.toml:2:", "at most 90"},
        BadCase{"run_dir_number", daemon("run_dir = 5"), "test.toml:2:", "must be a string"},
        BadCase{"run_dir_with_nul", daemon("run_dir = \"/a\\u0000b\""), "test.toml:2:", "NUL"},
        BadCase{"mode_number", daemon("socket_mode = 660"), "test.toml:2:", "must be a string"},
        BadCase{"mode_digits", daemon("socket_mode = \"0689\""), "test.toml:2:", "octal"},
        BadCase{"mode_setuid", daemon("socket_mode = \"4660\""), "test.toml:2:", "octal"},
        BadCase{"no_workers", daemon("workers = 0"), "test.toml:2:", "from 1 to 16"},
        BadCase{"many_workers", daemon("workers = 17"), "test.toml:2:", "from 1 to 16"},
        BadCase{"empty_worker_list", daemon("workers = []"), "test.toml:2:", "list of different CPU"},
        BadCase{"same_cpu_twice", daemon("workers = [1, 1]"), "test.toml:2:", "different CPU"},
        BadCase{"negative_cpu", daemon("workers = [-1]"), "test.toml:2:", "CPU numbers"},
        BadCase{"worker_names", daemon("workers = [\"0\"]"), "test.toml:2:", "CPU numbers"},
        BadCase{"hugepages_text", daemon("hugepages = \"yes\""), "test.toml:2:", "true or false"},
        BadCase{"copied_memory", daemon("copied_memory = \"mine\""), "test.toml:2:", "or \"all\""},
        BadCase{"eal_args_text", daemon("eal_args = \"-m 1\""), "test.toml:2:", "list of strings"},
        BadCase{"eal_args_numbers", daemon("eal_args = [\"-m\", 1]"), "test.toml:2:", "must be a string"},
        BadCase{"no_name", "[[rnic]]\nport = \"fabric\"\nfabric = \"x\"\n", "test.toml:1:", "'name'"},
        BadCase{"bad_name", "[[rnic]]\nname = \"a/b\"\n", "test.toml:2:", "letters, digits"},
        BadCase{"dot_name", "[[rnic]]\nname = \"..\"\n", "test.toml:2:", "letters, digits"},
        BadCase{"no_port", "[[rnic]]\nname = \"a\"\n", "test.toml:1:", "\"fabric\", \"pci\", \"vdev\", "},
        BadCase{"vlan_zero", port("[[rnic.vlan]]\nid = 0"), "test.toml:4:", "from 1 to 4094"},
        BadCase{"vlan_4095", port("[[rnic.vlan]]\nid = 4095"), "test.toml:4:", "from 1 to 4094"},
        BadCase{"vlan_without_id", port("[[rnic.vlan]]\nipv4 = \"10.0.0.1\""), "test.toml:3:", "needs 'id'"},
        BadCase{"vlan_without_address", port("[[rnic.vlan]]\nid = 7"), "test.toml:3:", "'ipv4' or 'ipv6'"},
        BadCase{"vlan_key", port("[[rnic.vlan]]\nmtu = 7"),
                "test.toml:4:", "id, gateway, ipv4, ipv6, routes"},
        BadCase{"vlan_single_brackets", port("[rnic.vlan]\nid = 7"), "test.toml:3:", "double brackets"},
        BadCase{"vlan_twice",
                port("[[rnic.vlan]]\nid = 7\nipv4 = \"10.0.0.1\"\n[[rnic.vlan]]\nid = 7\nipv6 = \"fd00::1\""),
                "test.toml:6:", "already"},
        BadCase{"bad_port", "[[rnic]]\nname = \"a\"\nport = \"eth0\"\n",
                "test.toml:1:", "\"af_packet\", \"af_xdp\" or \"memif\""},
        BadCase{"fabric_without_name", "[[rnic]]\nname = \"a\"\nport = \"fabric\"\n",
                "test.toml:1:", "needs 'fabric'"},
        BadCase{"pci_without_device", "[[rnic]]\nname = \"a\"\nport = \"pci\"\n",
                "test.toml:1:", "needs 'device'"},
        BadCase{"pci_netdev", "[[rnic]]\nname = \"a\"\nport = \"pci\"\ndevice = \"eth0\"\n",
                "test.toml:1:", "lspci"},
        BadCase{"fabric_with_device", rnic("device = \"0000:01:00.0\""),
                "test.toml:1:", "'device' goes with"},
        BadCase{"pci_with_fabric",
                "[[rnic]]\nname = \"a\"\nport = \"pci\"\ndevice = \"01:00.0\"\nfabric = \"x\"\n",
                "test.toml:1:", "'fabric' goes with"},
        BadCase{"af_packet_without_interface", port("port = \"af_packet\""),
                "test.toml:1:", "needs 'interface'"},
        BadCase{"af_xdp_with_device", port("port = \"af_xdp\"\ninterface = \"eth0\"\ndevice = \"x\""),
                "test.toml:1:", "'device' goes with port = \"pci\" or \"vdev\""},
        BadCase{"long_interface", port("port = \"af_packet\"\ninterface = \"a23456789abcdefg\""),
                "test.toml:1:", "ip link"},
        BadCase{"interface_path", port("port = \"af_packet\"\ninterface = \"a/b\""),
                "test.toml:1:", "ip link"},
        BadCase{"fabric_with_netns", rnic("netns = \"blue\""), "test.toml:1:", "\"af_packet\" or \"af_xdp\""},
        BadCase{"memif_without_role", port("port = \"memif\"\nsocket = \"/tmp/s\""),
                "test.toml:1:", "needs 'role'"},
        BadCase{"memif_role", port("port = \"memif\"\nsocket = \"/tmp/s\"\nrole = \"master\""),
                "test.toml:1:", "\"server\" or \"client\""},
        BadCase{"memif_comma", port("port = \"memif\"\nsocket = \"/tmp/s,x=1\"\nrole = \"server\""),
                "test.toml:1:", "'socket'"},
        BadCase{"memif_relative", port("port = \"memif\"\nsocket = \"s\"\nrole = \"server\""),
                "test.toml:1:", "absolute path"},
        BadCase{"same_interface",
                port("port = \"af_packet\"\ninterface = \"eth0\"") +
                    "[[rnic]]\nname = \"b\"\nport = \"af_packet\"\ninterface = \"eth0\"\n",
                "test.toml:5:", "'interface'"},
        BadCase{"short_mac", rnic("mac = \"02:00:c6:12:00\""), "test.toml:5:", "MAC"},
        BadCase{"mac_dashes", rnic("mac = \"02-00-c6-12-00-01\""), "test.toml:5:", "MAC"},
        BadCase{"multicast_mac", rnic("mac = \"01:00:5e:00:00:01\""), "test.toml:5:", "unicast MAC"},
        BadCase{"zero_mac", rnic("mac = \"00:00:00:00:00:00\""), "test.toml:5:", "unicast MAC"},
        BadCase{"bad_ipv4", rnic("ipv4 = \"10.0.0\""), "test.toml:5:", "IPv4"},
        BadCase{"ipv4_prefix", rnic("ipv4 = \"10.0.0.1/33\""), "test.toml:5:", "IPv4"},
        BadCase{"ipv4_prefix_junk", rnic("ipv4 = \"10.0.0.1/8x\""), "test.toml:5:", "IPv4"},
        BadCase{"ipv4_multicast", rnic("ipv4 = \"224.0.0.1\""), "test.toml:5:", "unicast IPv4"},
        BadCase{"bad_ipv6", rnic("ipv6 = \"10.0.0.1\""), "test.toml:5:", "IPv6"},
        BadCase{"ipv6_multicast", rnic("ipv6 = \"ff02::1\""), "test.toml:5:", "unicast IPv6"},
        BadCase{"ipv6_mapped", rnic("ipv6 = \"::ffff:10.0.0.1\""), "test.toml:5:", "unicast IPv6"},
        BadCase{"same_name", std::string(kRnic) + kRnic, "test.toml:5:", "line 1"},
        BadCase{"same_ip",
                rnic("ipv4 = \"10.0.0.1\"") +
                    "[[rnic]]\nname = \"b\"\nport = \"fabric\"\nfabric = \"x\"\nipv4 = \"10.0.0.1\"\n",
                "test.toml:6:", "line 1"}),
    [](const auto& info) { return info.param.what; });

TEST(Config, PortsOfTheKernelAndOfOtherDaemons) {
    const Config config = good(
        "[[rnic]]\nname = \"a\"\nport = \"af_packet\"\ninterface = \"eth0\"\nnetns = \"blue\"\n"
        "[[rnic]]\nname = \"b\"\nport = \"af_packet\"\ninterface = \"eth0\"\n"
        "[[rnic]]\nname = \"c\"\nport = \"af_packet\"\ninterface = \"eth0\"\nmac = \"02:00:00:00:00:05\"\n"
        "mtu = 512\n"
        "[[rnic]]\nname = \"d\"\nport = \"af_xdp\"\ninterface = \"eth1\"\n"
        "[[rnic]]\nname = \"e\"\nport = \"memif\"\nsocket = \"/tmp/s\"\nrole = \"server\"\n"
        "[[rnic]]\nname = \"f\"\nport = \"memif\"\nsocket = \"/tmp/s\"\nrole = \"client\"\nid = 7\n");
    ASSERT_EQ(config.rnics.size(), 6U);
    EXPECT_EQ(config.rnics[0].port, PortKind::kAfPacket);
    EXPECT_EQ(config.rnics[0].port_device, "eth0");
    EXPECT_EQ(config.rnics[0].netns, "blue");
    EXPECT_FALSE(config.rnics[0].is_mtu_set);
    EXPECT_TRUE(config.rnics[2].is_mtu_set);
    EXPECT_EQ(config.rnics[3].port, PortKind::kAfXdp);
    EXPECT_EQ(config.rnics[4].port, PortKind::kMemif);
    EXPECT_EQ(config.rnics[4].port_device, "/tmp/s");
    EXPECT_TRUE(config.rnics[4].is_memif_server);
    EXPECT_FALSE(config.rnics[5].is_memif_server);
    EXPECT_EQ(config.rnics[5].memif_id, 7U);
    EXPECT_FALSE(config.rnics[5].mac.has_value()) << "both ends would have the same";
}

TEST(Config, PciAddresses) {
    for (const char* good_one :
         {"0000:01:00.0", "01:00.0", "0000:ff:1f.7", "10000:e1:00.0", "0000:AF:00.1"}) {
        EXPECT_TRUE(is_pci_address(good_one)) << good_one;
    }
    for (const char* bad_one : {"", "eth0", "01:00", "01:20.0", "01:00.8", "0000:01:00.0x",
                                "0000:01:00.0,a=b", " 01:00.0", "01:00.0 ", "0000:01:00", "-1:00.0"}) {
        EXPECT_FALSE(is_pci_address(bad_one)) << bad_one;
    }
}

TEST(Config, AnswersToAFailedInvalidation) {
    for (const auto& [text, naks] : {std::pair("", false),
                                     {"failed_invalidation = \"ack\"\n", false},
                                     {"failed_invalidation = \"nak\"\n", true}}) {
        const auto result = parse_config(std::string(kRnic) + text, "f");
        const auto* config = std::get_if<Config>(&result);
        ASSERT_NE(config, nullptr) << std::get<ConfigError>(result).message;
        EXPECT_EQ(config->rnics[0].nak_failed_invalidation, naks) << text;
    }
    const auto bad = parse_config(std::string(kRnic) + "failed_invalidation = \"drop\"\n", "f");
    ASSERT_NE(std::get_if<ConfigError>(&bad), nullptr);
    EXPECT_THAT(std::get<ConfigError>(bad).message, testing::HasSubstr("must be \"ack\" or \"nak\""));
}

TEST(Config, PartitionsOfAnRnic) {
    const auto table_of = [](const std::string& text) {
        const auto result = parse_config(std::string(kRnic) + text, "f");
        const auto* config = std::get_if<Config>(&result);
        EXPECT_NE(config, nullptr) << text;
        return config != nullptr ? config->rnics[0].pkeys.entries : PkeyTable{}.entries;
    };
    std::array<std::uint16_t, PkeyTable::kEntries> expected{0xffff};
    EXPECT_EQ(table_of(""), expected);
    expected = {0x7fff, 0x8001, 0xffff, 1};
    EXPECT_EQ(table_of("pkeys = [0x7fff, 0x8001, 65535, 1]\n"), expected);
    std::string all;
    for (std::uint16_t i = 0; i < PkeyTable::kEntries; ++i) {
        expected.at(i) = static_cast<std::uint16_t>(0x8001 + i);
        all += fmt::format("{}0x{:x}", i == 0 ? "" : ", ", expected.at(i));
    }
    EXPECT_EQ(table_of("pkeys = [" + all + "]\n"), expected);
    for (const auto& [text, hint] : {std::pair(std::string("pkeys = []"), "a list of 1 to 128 P_Keys"),
                                     {"pkeys = 0xffff", "a list of 1 to 128 P_Keys"},
                                     {"pkeys = [" + all + ", 3]", "a list of 1 to 128 P_Keys"},
                                     {"pkeys = [0]", "'pkeys' in [[rnic]] must be"},
                                     {"pkeys = [0x10000]", "'pkeys' in [[rnic]] must be"},
                                     {"pkeys = [-1]", "'pkeys' in [[rnic]] must be"},
                                     {"pkeys = [\"0xffff\"]", "'pkeys' in [[rnic]] must be"},
                                     {"pkeys = [0xffff, 0x8000]", "which is no partition's"},
                                     {"pkeys = [0x8001, 0xffff, 0x8001]", "has 0x8001 twice"}}) {
        const auto bad = parse_config(std::string(kRnic) + text + "\n", "f");
        ASSERT_NE(std::get_if<ConfigError>(&bad), nullptr) << text;
        EXPECT_THAT(std::get<ConfigError>(bad).message, testing::HasSubstr(hint)) << text;
    }
}

TEST(Config, RoutesOfAnRnicWithAddressesOfItsOwn) {
    const std::string rnic = std::string(kRnic) +
                             "ipv4 = \"10.0.0.1/24\"\ngateway = \"10.0.0.254\"\n"
                             "routes = [\"10.1.0.0/16 via 10.0.0.253\"]\necn = true\nudp_checksum = "
                             "true\nmulticast_reports = false\n";
    const auto result = parse_config(rnic, "f");
    const auto* config = std::get_if<Config>(&result);
    ASSERT_NE(config, nullptr) << std::get<ConfigError>(result).message;
    const RnicConfig& read = config->rnics[0];
    ASSERT_EQ(read.routes.size(), 3U);
    EXPECT_TRUE(read.is_ecn_capable && read.udp_checksum_enabled && !read.reports_multicast);
    for (const char* wrong : {"gateway = \"10.0.0.0/8\"", "routes = [\"nonsense\"]", "routes = 7"}) {
        const auto bad = parse_config(std::string(kRnic) + wrong + "\n", "f");
        EXPECT_NE(std::get_if<ConfigError>(&bad), nullptr) << wrong;
    }
}

TEST(Config, OffloadIsAutomaticOrOff) {
    for (const auto& [text, is_off] : std::initializer_list<std::pair<const char*, bool>>{
             {"", false}, {"offload = \"auto\"", false}, {"offload = \"off\"", true}}) {
        const auto result = parse_config(std::string(kRnic) + text + "\n", "f");
        ASSERT_NE(std::get_if<Config>(&result), nullptr) << text;
        EXPECT_EQ(std::get<Config>(result).rnics[0].is_offload_off, is_off) << text;
    }
    const auto bad = parse_config(std::string(kRnic) + "offload = \"on\"\n", "f");
    ASSERT_NE(std::get_if<ConfigError>(&bad), nullptr);
    EXPECT_THAT(std::get<ConfigError>(bad).message, testing::HasSubstr("\"auto\" or \"off\""));
}

TEST(Config, AMissingFileIsNamed) {
    const auto result = read_config("/nonexistent/urnic.toml");
    const auto* error = std::get_if<ConfigError>(&result);
    ASSERT_NE(error, nullptr);
    EXPECT_THAT(error->message, StartsWith("/nonexistent/urnic.toml"));
    EXPECT_THAT(error->message, HasSubstr("No such file"));
}

TEST(Config, ADirectoryIsNoFile) {
    const auto result = read_config("/tmp");
    ASSERT_NE(std::get_if<ConfigError>(&result), nullptr);
}

TEST(Config, AFileIsRead) {
    std::string dir = "/tmp/urnic-config-XXXXXX";
    ASSERT_NE(mkdtemp(dir.data()), nullptr);
    std::ofstream(dir + "/urnic.toml") << kRnic;
    const auto result = read_config(dir + "/urnic.toml");
    EXPECT_NE(std::get_if<Config>(&result), nullptr);
    std::filesystem::remove_all(dir);
}

TEST(Config, StandaloneIsTheDocumentedPair) {
    const Config config = standalone_config("/tmp/x");
    ASSERT_EQ(config.rnics.size(), 2U);
    EXPECT_EQ(config.rnics[1].name, "urnic1");
    EXPECT_EQ(mac_text(*config.rnics[1].mac), "02:00:c6:12:00:02");
    EXPECT_EQ((*config.rnics[1].ipv4)[15], 2);
    EXPECT_FALSE(uses_hugepages(config));
    EXPECT_EQ(config.daemon.socket_mode, 0600U);
}

TEST(Config, LinkLocalGidFollowsModifiedEui64) {
    const wire::Gid gid = link_local_gid({0x02, 0x00, 0xc6, 0x12, 0x00, 0x01});
    EXPECT_EQ(gid, (wire::Gid{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x00, 0xc6, 0xff, 0xfe, 0x12, 0x00, 0x01}));
}

}  // namespace
}  // namespace urnic::daemon
