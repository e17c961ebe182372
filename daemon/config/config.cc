#include "daemon/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "abi/capture.h"
#include "abi/queues.h"
#include "daemon/config/congestion.h"
#include "daemon/config/faults.h"
#include "daemon/config/link_layer.h"
#include "daemon/config/links.h"
#include "daemon/config/networks.h"
#include "daemon/config/pfc.h"
#include "daemon/config/pkeys.h"
#include "daemon/config/ports.h"
#include "daemon/config/profiles.h"
#include "daemon/config/values.h"
#include "toml/renamed_keys.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

namespace {

constexpr std::int64_t kMaxBytes = 1LL << 46;
constexpr std::int64_t kMaxRingBytes = 64LL << 30;

void read_user_limits(TableReader& reader, UserLimits& limits) {
    for (std::size_t i = 0; i < kUserLimitKeys.size(); ++i) {
        reader.read_whole(kUserLimitKeys.at(i), limits.most.at(i), 1, 1 << 24);
    }
    for (std::size_t i = 0; i < kUserByteLimitKeys.size(); ++i) {
        reader.read_whole(kUserByteLimitKeys.at(i), limits.most_bytes.at(i), 1, kMaxBytes);
    }
}

void read_limits(TableReader& reader, ClientLimits& limits) {
    reader.read_whole("max_qps", limits.max_qps, 1, 16384);
    reader.read_whole("max_cqs", limits.max_cqs, 1, 16384);
    reader.read_whole("max_mrs", limits.max_mrs, 1, 131072);
    reader.read_whole("max_pds", limits.max_pds, 1, 32768);
    reader.read_whole("max_ahs", limits.max_ahs, 1, 131072);
    reader.read_whole("max_mws", limits.max_mws, 1, 131072);
    reader.read_whole("max_dms", limits.max_dms, 1, 131072);
    reader.read_whole("max_mcast_attachments", limits.max_mcast_attachments, 1, 65536);
    reader.read_whole("max_srqs", limits.max_srqs, 1, 16384);
    reader.read_whole("max_xrcds", limits.max_xrcds, 1, 16384);
    reader.read_whole("max_contexts", limits.max_contexts, 1, 65536);
    reader.read_whole("max_channels", limits.max_channels, 1, 16384);
    reader.read_whole("max_cm_channels", limits.max_cm_channels, 1, 65536);
    reader.read_whole("max_cm_ids", limits.max_cm_ids, 1, 65536);
    reader.read_whole("max_registered_bytes", limits.max_registered_bytes, 1, kMaxBytes);
    reader.read_whole("max_ring_bytes", limits.max_ring_bytes, 1, kMaxRingBytes);
    reader.read_whole("max_device_memory_bytes", limits.max_device_memory_bytes, 1, kMaxRingBytes);
    reader.read_table("per_uid", [&limits](TableReader& user) { read_user_limits(user, limits.per_uid); });
}

void read_socket(TableReader& reader, DaemonConfig& daemon) {
    // A Unix socket's path has 108 bytes at most; "/control.sock" follows.
    if (reader.read_text("run_dir", daemon.run_dir) &&
        (daemon.run_dir.front() != '/' || daemon.run_dir.size() > 90)) {
        reader.fail("run_dir", "must be an absolute path of at most 90 characters");
    }
    if (const auto text = reader.find_text("socket_mode")) {
        const auto mode = parse_mode(*text);
        if (!mode) {
            reader.fail("socket_mode", "must be permission bits as octal text, for example \"0660\"");
        }
        daemon.socket_mode = *mode;
    }
    reader.read_text("socket_group", daemon.socket_group);
}

void read_http(TableReader& reader, DaemonConfig& daemon) {
    if (const auto text = reader.find_text("http")) {
        if (!parse_http_address(*text, daemon.http.emplace())) {
            reader.fail("http",
                        "must be ADDRESS:PORT, for example \"127.0.0.1:8471\" or \"[::1]:8471\", or a port "
                        "on the loopback address, \"8471\"");
        }
    }
    reader.read_whole("http_qps", daemon.http_qps, 0, 100'000);
    reader.read_whole("http_traces", daemon.http_traces, 0, kMaxHttpTraces);
    reader.read_flag("histograms", daemon.has_histograms);
}

void read_workers(TableReader& reader, std::vector<int>& cpus) {
    const toml::node* const workers = reader.find("workers");
    if (workers == nullptr) {
        return;
    }
    const std::string allowed =
        fmt::format("must be a count from 1 to {} or a list of different CPU numbers", abi::kMaxWorkers);
    if (workers->is_integer()) {
        const auto count = reader.whole_at(*workers, "workers", 1, abi::kMaxWorkers, allowed);
        cpus.assign(static_cast<std::size_t>(count), -1);
        return;
    }
    cpus.clear();
    for (const auto& entry : *reader.find_list("workers", 1, abi::kMaxWorkers, allowed)) {
        const auto cpu = static_cast<int>(reader.whole_at(entry, "workers", 0, 4095, allowed));
        if (std::count(cpus.begin(), cpus.end(), cpu) != 0) {
            reader.fail_at(entry, "workers", allowed);
        }
        cpus.push_back(cpu);
    }
}

void read_daemon(TableReader& reader, DaemonConfig& daemon) {
    read_socket(reader, daemon);
    reader.read_text("user", daemon.user);
    reader.read_flag("seccomp", daemon.seccomp);
    read_http(reader, daemon);
    reader.read_flag("telemetry", daemon.has_telemetry);
    read_workers(reader, daemon.worker_cpus);
    reader.read_flag("dedicated_cores", daemon.has_dedicated_cores);
    reader.read_flag("hugepages", daemon.hugepages);
    reader.read_texts("eal_args", daemon.eal_args, 0, "[\"-m\", \"512\"]");
    reader.read_choice("copied_memory", daemon.limits.copied_memory_for_all, {"own", "all"},
                       ": for root and the daemon's user alone, or for all");
    reader.read_table("limits", [&daemon](TableReader& limits) { read_limits(limits, daemon.limits); });
}

std::optional<wire::Mac> read_mac(TableReader& reader) {
    const auto text = reader.find_text("mac");
    const auto mac = parse_mac(text.value_or(""));
    if (text && !mac) {
        reader.fail("mac", "must be a unicast MAC address, for example \"02:00:c6:12:00:01\"");
    }
    return mac;
}

void read_port(TableReader& reader, PortKeys& port, RnicConfig& rnic) {
    reader.read_text("port", port.port);
    reader.read_text("fabric", port.fabric);
    reader.read_text("device", port.device);
    reader.read_text("interface", port.interface);
    reader.read_text("netns", port.netns);
    reader.read_text("socket", port.socket);
    reader.read_text("role", port.role);
    reader.read_whole("id", port.id, 0, 0xffff'fffe);
    rnic.mac = read_mac(reader);
    read_link(reader, rnic);
    rnic.is_mtu_set = reader.read_whole("mtu", rnic.mtu_bytes, 256, 4096);
    if (!std::has_single_bit(rnic.mtu_bytes)) {
        reader.fail("mtu", "must be 256, 512, 1024, 2048 or 4096");
    }
}

void read_rnic_keys(TableReader& reader, PortKeys& port, RnicConfig& rnic) {
    if (reader.read_text("name", rnic.name) && !is_device_name(rnic.name)) {
        reader.fail("name", "must be 1 to 60 letters, digits, '_' or '-', a letter first");
    }
    read_port(reader, port, rnic);
    read_pkeys(reader, rnic.pkeys);
    read_link_layer(reader, rnic);
    read_profile(reader, rnic);
    reader.read_choice("offload", rnic.is_offload_off, {"auto", "off"});
    if (reader.read_choice("segmentation_offload", rnic.is_segmentation_off, {"auto", "off"})) {
        port.segmentation_offload = rnic.is_segmentation_off ? "off" : "auto";
    }
    reader.read_table("congestion", [&rnic](TableReader& table) { read_congestion(table, rnic); });
    reader.read_table("pfc", [&rnic](TableReader& table) { read_pfc(table, rnic); });
    read_vlans(reader, rnic);
    reader.read_flag("ecn", rnic.is_ecn_capable);
    reader.read_flag("multicast_reports", rnic.reports_multicast);
    reader.read_flag("udp_checksum", rnic.udp_checksum_enabled);
    reader.finish();
}

RnicConfig read_rnic(TableReader& reader) {
    RnicConfig rnic;
    PortKeys port;
    read_rnic_keys(reader, port, rnic);
    const toml::table& table = reader.table();
    rnic.line = table.source().begin.line;
    if (rnic.name.empty()) {
        throw_at(table, "this [[rnic]] has no 'name', for example name = \"urnic0\"");
    }
    if (const std::string problem = apply_port_keys(port, rnic); !problem.empty()) {
        throw_at(table, problem);
    }
    check_link_layer(table, rnic);
    const bool is_nic = rnic.port == PortKind::kPci || rnic.port == PortKind::kVdev;
    if (is_nic && !rnic.is_mtu_set) {
        rnic.mtu_bytes = 1024;  // the most that fits into ordinary Ethernet frames of 1500 bytes
    }
    return rnic;
}

/// Names, addresses and devices belong to one RNIC each.
void check_unique(const toml::table& table, const RnicConfig& rnic, const std::vector<RnicConfig>& earlier) {
    for (const RnicConfig& other : earlier) {
        const char* what = nullptr;
        const char* why = "";
        if (rnic.name == other.name) {
            what = "name";
        } else if (rnic.mac && rnic.mac == other.mac) {
            what = "mac";
            why = ", for the GUID is made from it";
        } else if (rnic.ipv4 && rnic.ipv4 == other.ipv4) {
            what = "ipv4";
        } else if (rnic.ipv6 && rnic.ipv6 == other.ipv6) {
            what = "ipv6";
        } else if (const char* const address = same_vlan_address(rnic, other)) {
            what = address;
        } else if (same_port(rnic, other)) {
            what = rnic.port == PortKind::kMemif                                 ? "socket"
                   : rnic.port == PortKind::kPci || rnic.port == PortKind::kVdev ? "device"
                                                                                 : "interface";
        }
        if (what != nullptr) {
            throw_at(
                table,
                fmt::format("'{}' is the same as that of the [[rnic]] in line {}; each must be different{}",
                            what, other.line, why));
        }
    }
}

/// RNICs on a wire of ours have no NIC to take a MAC from: locally administered, numbered, not in use.
void fill_macs(std::vector<RnicConfig>& rnics) {
    std::uint8_t next = 1;
    for (RnicConfig& rnic : rnics) {
        while (rnic.port == PortKind::kFabric && !rnic.mac) {
            const wire::Mac mac{0x02, 0x00, 0xc6, 0x12, 0x00, next++};
            if (std::none_of(rnics.begin(), rnics.end(),
                             [&](const auto& other) { return other.mac == mac; })) {
                rnic.mac = mac;
            }
        }
    }
}

NeighbourConfig read_neighbour(TableReader& reader) {
    std::optional<wire::Gid> gid;
    if (const auto ip = reader.find_text("ip")) {
        gid = ip->find(':') == std::string::npos ? parse_ipv4(*ip) : parse_ipv6(*ip);
        if (!gid) {
            reader.fail("ip", "must be a unicast IPv4 or IPv6 address");
        }
    }
    const auto mac = read_mac(reader);
    reader.finish();
    if (!gid || !mac) {
        throw_at(reader.table(), "a [[neighbour]] needs 'ip' and 'mac'");
    }
    return {*gid, *mac};
}

std::vector<RenamedKey> renamed_keys() {
    std::vector<RenamedKey> keys = {{"", "wire", "network"},
                                    {"daemon", "spin", "dedicated_cores"},
                                    {"rnic.pfc", "honour", "rx_priorities"},
                                    {"rnic.pfc", "send", "tx_priorities"}};
    for (const auto& [former, current] : congestion::former_names()) {
        keys.push_back({"rnic.congestion", former, current});
    }
    return keys;
}

Config read_document(toml::table document, const std::string& file) {
    Config config;
    config.warnings = replace_old_keys(document, file, renamed_keys());
    TableReader reader(document);
    reader.read_table("daemon", [&config](TableReader& table) { read_daemon(table, config.daemon); });
    reader.read_tables("rnic", [&config](TableReader& table) {
        const RnicConfig rnic = read_rnic(table);
        check_unique(table.table(), rnic, config.rnics);
        config.rnics.push_back(rnic);
    });
    reader.read_tables("neighbour",
                       [&config](TableReader& table) { config.neighbours.push_back(read_neighbour(table)); });
    // Read when the RNICs are known to be right.
    (void)reader.find_tables("network");
    (void)reader.find_tables("fault");
    reader.finish();
    if (config.rnics.empty()) {
        throw TomlError{{1, 1}, "no RNIC is configured: add at least one [[rnic]] with 'name' and 'port'"};
    }
    if (config.rnics.size() > abi::kCaptureRnics) {
        throw TomlError{{config.rnics[abi::kCaptureRnics].line, 1},
                        fmt::format("more than {} RNICs", abi::kCaptureRnics)};
    }
    if (config.daemon.has_dedicated_cores && config.daemon.worker_cpus.front() < 0) {
        throw TomlError{{1, 1},
                        "'dedicated_cores' needs 'workers' as a list of CPUs, on which nothing else runs"};
    }
    if (config.daemon.has_histograms && !config.daemon.http) {
        throw TomlError{{1, 1}, "'histograms' needs 'http', the address where Prometheus reads them"};
    }
    fill_macs(config.rnics);
    read_networks(reader, config);
    finish_link_layers(config);
    finish_pfc(config);
    read_faults(reader, config);
    return config;
}

}  // namespace

std::variant<Config, ConfigError> parse_config(std::string_view text, const std::string& file) {
    try {
        return read_document(parse_toml(text), file);
    } catch (const TomlError& error) {
        return ConfigError{message_of(error, file)};
    }
}

std::variant<Config, ConfigError> read_config(const std::string& file) {
    errno = 0;
    std::ifstream stream(file);
    std::ostringstream text;
    if (!stream || !(text << stream.rdbuf())) {
        return ConfigError{fmt::format("{}: cannot read the configuration: {}", file,
                                       errno != 0 ? std::strerror(errno) : "the file is empty")};
    }
    return parse_config(text.str(), file);
}

bool uses_hugepages(const Config& config) {
    return config.daemon.hugepages.value_or(
        std::any_of(config.rnics.begin(), config.rnics.end(),
                    [](const RnicConfig& rnic) { return rnic.port == PortKind::kPci; }));
}

Config standalone_config(const std::string& run_dir, bool is_infiniband) {
    Config config;
    config.daemon.run_dir = run_dir;
    config.daemon.socket_mode = 0600;
    config.daemon.worker_cpus = {-1};
    for (int i = 0; i < 2; ++i) {
        RnicConfig rnic;
        rnic.name = fmt::format("urnic{}", i);
        rnic.port_device = "standalone";
        rnic.mac = wire::Mac{0x02, 0x00, 0xc6, 0x12, 0x00, static_cast<std::uint8_t>(i + 1)};
        rnic.is_infiniband = is_infiniband;
        rnic.ipv4 = parse_ipv4(fmt::format("198.18.0.{}/24", i + 1));
        config.rnics.push_back(rnic);
    }
    finish_link_layers(config);
    return config;
}

std::uint64_t node_guid(const wire::Mac& mac) {
    std::uint64_t guid = 0;
    std::memcpy(&guid, link_local_gid(mac).data() + 8, sizeof guid);
    return guid;
}

}  // namespace urnic::daemon
