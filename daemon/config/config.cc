#include "daemon/config/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
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
#include "daemon/config/renamed_keys.h"
#include "daemon/config/toml_table.h"
#include "daemon/config/values.h"

namespace urnic::daemon {

namespace {

constexpr std::int64_t kMaxBytes = 1LL << 46;

template <auto Member, std::int64_t Most>
void set_limit(ClientLimits& limits, const toml::node& node, const std::string& key) {
    auto& member = limits.*Member;
    member = static_cast<std::remove_reference_t<decltype(member)>>(get_int(node, key, 1, Most));
}

void set_user_limits(ClientLimits& limits, const toml::node& node, const std::string& key) {
    const auto* table = node.as_table();
    if (table == nullptr) {
        throw_at(node, fmt::format("'{}' must be a table: [daemon.limits.per_uid]", key));
    }
    for (const auto& [name, value] : *table) {
        const std::string name_text(name.str());
        if (const auto* const bytes =
                std::find(kUserByteLimitKeys.begin(), kUserByteLimitKeys.end(), name_text);
            bytes != kUserByteLimitKeys.end()) {
            limits.per_uid.most_bytes.at(static_cast<std::size_t>(bytes - kUserByteLimitKeys.begin())) =
                static_cast<std::uint64_t>(get_int(value, name_text, 1, kMaxBytes));
            continue;
        }
        const auto* const found = std::find(kUserLimitKeys.begin(), kUserLimitKeys.end(), name_text);
        if (found == kUserLimitKeys.end()) {
            throw ParseError{
                name.source().begin,
                fmt::format("unknown key '{}' in [daemon.limits.per_uid]; allowed: {}, {}", name_text,
                            fmt::join(kUserLimitKeys, ", "), fmt::join(kUserByteLimitKeys, ", "))};
        }
        limits.per_uid.most.at(static_cast<std::size_t>(found - kUserLimitKeys.begin())) =
            static_cast<std::uint32_t>(get_int(value, name_text, 1, 1 << 24));
    }
}

constexpr Key<ClientLimits> kLimitKeys[] = {
    {"max_qps", set_limit<&ClientLimits::max_qps, 16384>},
    {"max_cqs", set_limit<&ClientLimits::max_cqs, 16384>},
    {"max_mrs", set_limit<&ClientLimits::max_mrs, 131072>},
    {"max_pds", set_limit<&ClientLimits::max_pds, 32768>},
    {"max_ahs", set_limit<&ClientLimits::max_ahs, 131072>},
    {"max_mws", set_limit<&ClientLimits::max_mws, 131072>},
    {"max_dms", set_limit<&ClientLimits::max_dms, 131072>},
    {"max_mcast_attachments", set_limit<&ClientLimits::max_mcast_attachments, 65536>},
    {"max_srqs", set_limit<&ClientLimits::max_srqs, 16384>},
    {"max_xrcds", set_limit<&ClientLimits::max_xrcds, 16384>},
    {"max_contexts", set_limit<&ClientLimits::max_contexts, 65536>},
    {"max_channels", set_limit<&ClientLimits::max_channels, 16384>},
    {"max_cm_channels", set_limit<&ClientLimits::max_cm_channels, 65536>},
    {"max_cm_ids", set_limit<&ClientLimits::max_cm_ids, 65536>},
    {"max_registered_bytes", set_limit<&ClientLimits::max_registered_bytes, kMaxBytes>},
    {"max_ring_bytes", set_limit<&ClientLimits::max_ring_bytes, 64LL << 30>},
    {"max_device_memory_bytes", set_limit<&ClientLimits::max_device_memory_bytes, 64LL << 30>},
    {"per_uid", set_user_limits},
};

void set_run_dir(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    daemon.run_dir = get_string(node, key);
    // A Unix socket's path has 108 bytes at most; "/control.sock" follows.
    if (daemon.run_dir.front() != '/' || daemon.run_dir.size() > 90) {
        throw_at(node, fmt::format("'{}' must be an absolute path of at most 90 characters", key));
    }
}

void set_socket_mode(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    const auto mode = parse_mode(get_string(node, key));
    if (!mode) {
        throw_at(node, fmt::format("'{}' must be permission bits as octal text, for example \"0660\"", key));
    }
    daemon.socket_mode = *mode;
}

void set_http(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    HttpAddress address;
    if (!parse_http_address(get_string(node, key), address)) {
        throw_at(node, fmt::format("'{}' must be ADDRESS:PORT, for example \"127.0.0.1:8471\" or "
                                   "\"[::1]:8471\", or a port on the loopback address, \"8471\"",
                                   key));
    }
    daemon.http = address;
}

void set_workers(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    const std::string allowed = fmt::format(
        "'{}' must be a count from 1 to {} or a list of different CPU numbers", key, abi::kMaxWorkers);
    if (const auto* count = node.as_integer()) {
        if (count->get() < 1 || count->get() > abi::kMaxWorkers) {
            throw_at(node, allowed);
        }
        daemon.worker_cpus.assign(static_cast<std::size_t>(count->get()), -1);
        return;
    }
    const auto* list = node.as_array();
    if (list == nullptr || list->empty() || list->size() > abi::kMaxWorkers) {
        throw_at(node, allowed);
    }
    daemon.worker_cpus.clear();
    for (const auto& entry : *list) {
        const auto* cpu = entry.as_integer();
        if (cpu == nullptr || cpu->get() < 0 || cpu->get() > 4095 ||
            std::count(daemon.worker_cpus.begin(), daemon.worker_cpus.end(), cpu->get()) != 0) {
            throw_at(entry, allowed);
        }
        daemon.worker_cpus.push_back(static_cast<int>(cpu->get()));
    }
}

void set_eal_args(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    const auto* list = node.as_array();
    if (list == nullptr) {
        throw_at(node, fmt::format("'{}' must be a list of strings, for example [\"-m\", \"512\"]", key));
    }
    for (const auto& entry : *list) {
        daemon.eal_args.push_back(get_string(entry, key));
    }
}

void set_copied_memory(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    const std::string text = get_string(node, key);
    if (text != "own" && text != "all") {
        throw_at(node, fmt::format("'{}' must be \"own\" (root and the daemon's user) or \"all\"", key));
    }
    daemon.limits.copied_memory_for_all = text == "all";
}

void set_limits(DaemonConfig& daemon, const toml::node& node, const std::string& key) {
    const auto* table = node.as_table();
    if (table == nullptr) {
        throw_at(node, fmt::format("'{}' must be a table: [daemon.limits]", key));
    }
    read_table(*table, "[daemon.limits]", kLimitKeys, daemon.limits);
}

constexpr Key<DaemonConfig> kDaemonKeys[] = {
    {"run_dir", set_run_dir},
    {"socket_mode", set_socket_mode},
    {"socket_group", [](DaemonConfig& daemon, const toml::node& node,
                        const std::string& key) { daemon.socket_group = get_string(node, key); }},
    {"user", [](DaemonConfig& daemon, const toml::node& node,
                const std::string& key) { daemon.user = get_string(node, key); }},
    {"seccomp", [](DaemonConfig& daemon, const toml::node& node,
                   const std::string& key) { daemon.seccomp = get_bool(node, key); }},
    {"http", set_http},
    {"http_qps",
     [](DaemonConfig& daemon, const toml::node& node, const std::string& key) {
         daemon.http_qps = static_cast<std::uint32_t>(get_int(node, key, 0, 100'000));
     }},
    {"histograms", [](DaemonConfig& daemon, const toml::node& node,
                      const std::string& key) { daemon.has_histograms = get_bool(node, key); }},
    {"telemetry", [](DaemonConfig& daemon, const toml::node& node,
                     const std::string& key) { daemon.has_telemetry = get_bool(node, key); }},
    {"workers", set_workers},
    {"dedicated_cores", [](DaemonConfig& daemon, const toml::node& node,
                           const std::string& key) { daemon.has_dedicated_cores = get_bool(node, key); }},
    {"hugepages", [](DaemonConfig& daemon, const toml::node& node,
                     const std::string& key) { daemon.hugepages = get_bool(node, key); }},
    {"eal_args", set_eal_args},
    {"copied_memory", set_copied_memory},
    {"limits", set_limits},
};

/// An [[rnic]] table while it is read: which port keys were given is checked once all are known.
struct RnicDraft {
    RnicConfig rnic;
    PortKeys port;
};

template <std::string PortKeys::*Member>
void set_port_key(RnicDraft& draft, const toml::node& node, const std::string& key) {
    draft.port.*Member = get_string(node, key);
}

template <void (*Set)(LinkConfig&, const toml::node&, const std::string&)>
void set_link(RnicDraft& draft, const toml::node& node, const std::string& key) {
    Set(draft.rnic, node, key);
}

template <void (*Set)(RnicConfig&, const toml::node&, const std::string&)>
void set_rnic(RnicDraft& draft, const toml::node& node, const std::string& key) {
    Set(draft.rnic, node, key);
}

void set_name(RnicDraft& draft, const toml::node& node, const std::string& key) {
    draft.rnic.name = get_string(node, key);
    if (!is_device_name(draft.rnic.name)) {
        throw_at(node, fmt::format("'{}' must be 1 to 60 letters, digits, '_' or '-', a letter first", key));
    }
}

void set_mac(RnicDraft& draft, const toml::node& node, const std::string& key) {
    draft.rnic.mac = parse_mac(get_string(node, key));
    if (!draft.rnic.mac) {
        throw_at(node,
                 fmt::format("'{}' must be a unicast MAC address, for example \"02:00:c6:12:00:01\"", key));
    }
}

void set_mtu(RnicDraft& draft, const toml::node& node, const std::string& key) {
    const auto mtu = get_int(node, key, 256, 4096);
    if (!std::has_single_bit(static_cast<std::uint64_t>(mtu))) {
        throw_at(node, fmt::format("'{}' must be 256, 512, 1024, 2048 or 4096", key));
    }
    draft.rnic.mtu_bytes = static_cast<std::uint32_t>(mtu);
    draft.rnic.is_mtu_set = true;
}

void set_offload(RnicDraft& draft, const toml::node& node, const std::string& key) {
    draft.rnic.is_offload_off = is_second_of(node, key, "auto", "off");
}

void set_segmentation_offload(RnicDraft& draft, const toml::node& node, const std::string& key) {
    draft.port.segmentation_offload = get_string(node, key);
    draft.rnic.is_segmentation_off = is_second_of(node, key, "auto", "off");
}

constexpr Key<RnicDraft> kRnicKeys[] = {
    {"name", set_name},
    {"port", set_port_key<&PortKeys::port>},
    {"fabric", set_port_key<&PortKeys::fabric>},
    {"device", set_port_key<&PortKeys::device>},
    {"interface", set_port_key<&PortKeys::interface>},
    {"netns", set_port_key<&PortKeys::netns>},
    {"socket", set_port_key<&PortKeys::socket>},
    {"role", set_port_key<&PortKeys::role>},
    {"id", [](RnicDraft& draft, const toml::node& node,
              const std::string& key) { draft.port.id = get_int(node, key, 0, 0xffff'fffe); }},
    {"mac", set_mac},
    {"ipv4", set_link<set_ipv4>},
    {"ipv6", set_link<set_ipv6>},
    {"mtu", set_mtu},
    {"pkeys", [](RnicDraft& draft, const toml::node& node,
                 const std::string& key) { draft.rnic.pkeys = read_pkeys(node, key); }},
    {"link_layer", set_rnic<set_link_layer>},
    {"lid", set_rnic<set_lid>},
    {"subnet_manager", set_rnic<set_subnet_manager>},
    {"profile", [](RnicDraft&, const toml::node&, const std::string&) {}},  // see read_rnic()
    {"recovery", set_rnic<set_recovery>},
    {"mig_req", set_rnic<set_mig_req>},
    {"udp_source_port", set_rnic<set_source_port>},
    {"failed_invalidation", set_rnic<set_failed_invalidation>},
    {"offload", set_offload},
    {"segmentation_offload", set_segmentation_offload},
    {"gateway", set_link<set_gateway>},
    {"routes", set_link<set_routes>},
    {"congestion",
     [](RnicDraft& draft, const toml::node& node, const std::string&) { read_congestion(node, draft.rnic); }},
    {"pfc", [](RnicDraft& draft, const toml::node& node, const std::string&) { read_pfc(node, draft.rnic); }},
    {"vlan",
     [](RnicDraft& draft, const toml::node& node, const std::string&) { read_vlans(node, draft.rnic); }},
    {"ecn", [](RnicDraft& draft, const toml::node& node,
               const std::string& key) { draft.rnic.is_ecn_capable = get_bool(node, key); }},
    {"multicast_reports", [](RnicDraft& draft, const toml::node& node,
                             const std::string& key) { draft.rnic.reports_multicast = get_bool(node, key); }},
    {"udp_checksum", [](RnicDraft& draft, const toml::node& node,
                        const std::string& key) { draft.rnic.udp_checksum_enabled = get_bool(node, key); }},
};

RnicConfig read_rnic(const toml::table& table) {
    RnicDraft draft;
    if (const toml::node* const profile = table.get("profile")) {
        read_profile(*profile, draft.rnic);  // the other keys go before it
    }
    read_table(table, "[[rnic]]", kRnicKeys, draft);
    RnicConfig& rnic = draft.rnic;
    rnic.line = table.source().begin.line;
    if (rnic.name.empty()) {
        throw_at(table, "this [[rnic]] has no 'name', for example name = \"urnic0\"");
    }
    if (const std::string problem = apply_port_keys(draft.port, rnic); !problem.empty()) {
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
        if (rnic.name == other.name) {
            what = "name";
        } else if (rnic.mac && rnic.mac == other.mac) {
            what = "mac";
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
            throw_at(table, fmt::format(
                                "'{}' is the same as that of the [[rnic]] in line {}; each must be different",
                                what, other.line));
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

/// A [[neighbour]] table; both keys are needed.
struct NeighbourDraft {
    std::optional<wire::Gid> gid;
    std::optional<wire::Mac> mac;
};

constexpr Key<NeighbourDraft> kNeighbourKeys[] = {
    {"ip",
     [](NeighbourDraft& draft, const toml::node& node, const std::string& key) {
         const std::string text = get_string(node, key);
         draft.gid = text.find(':') == std::string::npos ? parse_ipv4(text) : parse_ipv6(text);
         if (!draft.gid) {
             throw_at(node, fmt::format("'{}' must be a unicast IPv4 or IPv6 address", key));
         }
     }},
    {"mac",
     [](NeighbourDraft& draft, const toml::node& node, const std::string& key) {
         draft.mac = parse_mac(get_string(node, key));
         if (!draft.mac) {
             throw_at(node, fmt::format("'{}' must be a unicast MAC address", key));
         }
     }},
};

NeighbourConfig read_neighbour(const toml::table& table) {
    NeighbourDraft draft;
    read_table(table, "[[neighbour]]", kNeighbourKeys, draft);
    if (!draft.gid || !draft.mac) {
        throw_at(table, "a [[neighbour]] needs 'ip' and 'mac'");
    }
    return {*draft.gid, *draft.mac};
}

Config read_document(toml::table document, const std::string& file) {
    Config config;
    config.warnings = replace_old_keys(document, file);
    const toml::node* faults = nullptr;    // read when the RNICs are known
    const toml::node* networks = nullptr;  // the same
    for (const auto& [name, node] : document) {
        if (name.str() == "daemon" && node.is_table()) {
            read_table(*node.as_table(), "[daemon]", kDaemonKeys, config.daemon);
        } else if (name.str() == "rnic" && node.is_array_of_tables()) {
            for (const auto& entry : *node.as_array()) {
                const toml::table& table = *entry.as_table();
                const RnicConfig rnic = read_rnic(table);
                check_unique(table, rnic, config.rnics);
                config.rnics.push_back(rnic);
            }
        } else if (name.str() == "neighbour" && node.is_array_of_tables()) {
            for (const auto& entry : *node.as_array()) {
                config.neighbours.push_back(read_neighbour(*entry.as_table()));
            }
        } else if (name.str() == "fault" && node.is_array_of_tables()) {
            faults = &node;
        } else if (name.str() == "network" && node.is_array_of_tables()) {
            networks = &node;
        } else {
            throw ParseError{
                name.source().begin,
                fmt::format("unknown section or key '{}'; allowed: [daemon], [daemon.limits], one "
                            "[[rnic]] (double brackets) for each RNIC, [[network]], [[neighbour]] and "
                            "[[fault]]",
                            name.str())};
        }
    }
    if (config.rnics.empty()) {
        throw ParseError{{1, 1}, "no RNIC is configured: add at least one [[rnic]] with 'name' and 'port'"};
    }
    if (config.rnics.size() > abi::kCaptureRnics) {
        throw ParseError{{config.rnics[abi::kCaptureRnics].line, 1},
                         fmt::format("more than {} RNICs", abi::kCaptureRnics)};
    }
    if (config.daemon.has_dedicated_cores && config.daemon.worker_cpus.front() < 0) {
        throw ParseError{{1, 1},
                         "'dedicated_cores' needs 'workers' as a list of CPUs, on which nothing else runs"};
    }
    if (config.daemon.has_histograms && !config.daemon.http) {
        throw ParseError{{1, 1}, "'histograms' needs 'http', the address where Prometheus reads them"};
    }
    fill_macs(config.rnics);
    read_network_tables(networks, config);
    finish_link_layers(config);
    finish_pfc(config);
    read_fault_tables(faults, config);
    return config;
}

}  // namespace

std::variant<Config, ConfigError> parse_config(std::string_view text, const std::string& file) {
    try {
        return read_document(toml::parse(text, file), file);
    } catch (const toml::parse_error& error) {
        const auto where = error.source().begin;
        return ConfigError{
            fmt::format("{}:{}:{}: not valid TOML: {}", file, where.line, where.column, error.description())};
    } catch (const ParseError& mistake) {
        return ConfigError{
            fmt::format("{}:{}:{}: {}", file, mistake.where.line, mistake.where.column, mistake.text)};
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
