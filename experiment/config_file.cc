#include "experiment/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "congestion/profiles.h"
#include "congestion/setting_names.h"
#include "experiment/subnet_file.h"
#include "experiment/variants.h"
#include "toml/renamed_keys.h"
#include "toml/table_reader.h"

namespace urnic::experiment {

namespace {

constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;
constexpr double kKilo = 1e3;
constexpr double kMostGbit = 1099;
constexpr double kMostUs = 1e9;
constexpr double kMostKb = 1e9;
constexpr std::int64_t kMostHosts = netsim::kMaxNodes;

void read_link(TableReader& reader, const char* rate_key, const char* delay_key, netsim::LinkSpec& link) {
    reader.read_scaled(rate_key, link.rate, kGiga, 0.001, kMostGbit);
    reader.read_scaled(delay_key, link.delay_ns, 1, 0, static_cast<double>(netsim::kMaxLinkDelayNs));
}

netsim::NodeIndex end_of_link(const netsim::Topology& topology, const TableReader& link,
                              const std::string& name) {
    const netsim::NodeIndex node = topology.find(name);
    if (node == netsim::kNoNode) {
        link.fail("between", fmt::format("names \"{}\", which is neither a host nor a switch", name));
    }
    return node;
}

netsim::Topology read_custom(TableReader& reader, const netsim::LinkSpec& edge) {
    netsim::Topology topology;
    std::vector<std::string> hosts;
    reader.read_texts("hosts", hosts, 1, "[\"a\", \"b\"]");
    for (const std::string& name : hosts) {
        (void)topology.add_host(name);
    }
    std::vector<std::string> switches;
    reader.read_texts("switches", switches, 1, "[\"s\"]");
    for (const std::string& name : switches) {
        (void)topology.add_switch(name);
    }
    reader.read_tables("link", [&](TableReader& link) {
        std::vector<std::string> between;
        link.read_texts("between", between, 1, "[\"a\", \"s\"]");
        if (between.size() != 2) {
            link.fail("between", "must name the two ends of the link");
        }
        netsim::LinkSpec spec = edge;
        read_link(link, "rate_gbit", "delay_ns", spec);
        topology.connect(end_of_link(topology, link, between[0]), end_of_link(topology, link, between[1]),
                         spec);
    });
    return topology;
}

/// Refuses a key of the one link layer where the network has the other.
void only_with(LinkLayer wanted, LinkLayer is, const TableReader& reader, const char* key,
               const std::string& instead) {
    if (wanted != is && reader.has(key)) {
        reader.fail(key, fmt::format("is of no use with link_layer = \"{}\"; {}",
                                     is == LinkLayer::kInfiniband ? "infiniband" : "ethernet", instead));
    }
}

netsim::Topology read_topology(TableReader& reader, LinkLayer link_layer, std::uint64_t& ecmp_seed) {
    netsim::LinkSpec edge{40'000'000'000, 1'000};
    read_link(reader, "rate_gbit", "delay_ns", edge);
    std::size_t kind = 0;
    reader.read_choice("kind", kind, {"star", "dumbbell", "parking-lot", "leaf-spine", "custom"});
    reader.read_whole("ecmp_seed", ecmp_seed, 0, 1LL << 31U);
    only_with(LinkLayer::kEthernet, link_layer, reader, "ecmp_seed",
              "forwarding tables give each LID one way");
    const auto count = [&reader](const char* key, std::int64_t least, std::uint32_t otherwise) {
        reader.read_whole(key, otherwise, least, kMostHosts);
        return otherwise;
    };
    if (kind == 0) {
        return netsim::star(count("hosts", 2, 2), edge);
    }
    if (kind == 4) {
        return read_custom(reader, edge);
    }
    netsim::LinkSpec trunk = edge;
    read_link(reader, "trunk_gbit", "trunk_delay_ns", trunk);
    if (kind == 1) {
        return netsim::dumbbell(count("pairs", 1, 2), edge, trunk);
    }
    if (kind == 2) {
        return netsim::parking_lot(count("switches", 2, 3), count("hosts_each", 1, 2), edge, trunk);
    }
    return netsim::leaf_spine(count("leaves", 2, 2), count("spines", 1, 2), count("hosts_each", 1, 2), edge,
                              trunk);
}

void read_switches(TableReader& reader, std::uint8_t data_priority, netsim::NetworkOptions& fabric) {
    netsim::SwitchOptions& options = fabric.switches;
    constexpr std::int64_t kMostWeight = 1'000;
    const auto read_kb = [&reader](const char* key, std::uint64_t& bytes, std::uint64_t otherwise,
                                   double least = 0) {
        bytes = otherwise;
        reader.read_scaled(key, bytes, kKilo, least, kMostKb);
    };
    reader.read_wholes("weights", fabric.weights, kMostWeight, "of priority 0 first");
    read_kb("buffer_kb", options.buffer_bytes, 12'000'000, 1);
    read_kb("queue_kb", options.queue_bytes, ~0ULL, 1);
    netsim::EcnOptions ecn;
    read_kb("kmin_kb", ecn.kmin_bytes, 5'000);
    read_kb("kmax_kb", ecn.kmax_bytes, 200'000);
    std::uint32_t pmax_millionths = 10'000;
    reader.read_scaled("pmax", pmax_millionths, kMega, 0, 1);
    ecn.pmax = Fraction::of(pmax_millionths, 1'000'000);
    if (!reader.find_flag("ecn").value_or(true)) {
        ecn.kmax_bytes = 0;
    }
    options.ecn.fill(ecn);
    const bool pfc = reader.find_flag("pfc").value_or(true);
    options.pfc.lossless = pfc ? static_cast<std::uint8_t>(1U << data_priority) : 0;
    read_kb("xoff_kb", options.pfc.xoff_bytes, 500'000);
    read_kb("xon_kb", options.pfc.xon_bytes, options.pfc.xoff_bytes - options.pfc.xoff_bytes / 10);
    read_kb("headroom_kb", options.pfc.headroom_bytes, 100'000);
    reader.read_scaled("watchdog_us", options.pfc.watchdog_ns, kKilo, 0, kMostUs);
}

void read_fraction(TableReader& reader, const char* key, Fraction& fraction) {
    std::uint32_t raw = fraction.raw();
    reader.read_scaled(key, raw, Fraction::kOne, 0, 1);
    fraction = Fraction::from_raw(raw);
}

void read_dcqcn(TableReader& reader, congestion::Settings& settings) {
    std::vector<std::string_view> names;
    for (const congestion::DcqcnProfile& profile : congestion::dcqcn_profiles()) {
        names.push_back(profile.name);
    }
    congestion::DcqcnParameters& p = settings.rate.dcqcn;
    std::size_t chosen = 0;
    if (reader.read_choice("profile", chosen, names)) {
        const congestion::DcqcnProfile& profile = congestion::dcqcn_profiles()[chosen];
        p = congestion::parameters_for(profile, settings.rate.line_rate);
        settings.min_time_between_cnps_ns = profile.min_time_between_cnps_ns;
    }
    read_fraction(reader, "g", p.g);
    read_fraction(reader, "initial_alpha", p.initial_alpha);
    reader.read_scaled("alpha_period_us", p.alpha_period_ns, kKilo, 0.1, kMostUs);
    reader.read_scaled("rate_reduce_monitor_period_us", p.rate_reduce_monitor_period_ns, kKilo, 0, kMostUs);
    reader.read_scaled("increase_period_us", p.increase_period_ns, kKilo, 0.1, kMostUs);
    reader.read_scaled("increase_kb", p.increase_bytes, kKilo, 0, kMostKb);
    reader.read_whole("recovery_stages", p.recovery_stages, 1, 1000);
    reader.read_scaled("additive_increase_mbit", p.additive_increase, kMega, 0.001, 1e6);
    reader.read_scaled("hyper_increase_mbit", p.hyper_increase, kMega, 0.001, 1e6);
    reader.read_scaled("min_rate_mbit", p.min_rate, kMega, 0.001, 1e6);
}

void read_congestion(TableReader& reader, congestion::Settings& settings) {
    using congestion::Algorithm;
    constexpr std::array<Algorithm, 4> kAlgorithms = {Algorithm::kDcqcn, Algorithm::kNone, Algorithm::kFixed,
                                                      Algorithm::kTimely};
    std::size_t algorithm = 0;
    if (reader.read_choice("algorithm", algorithm, {"dcqcn", "none", "fixed", "timely"})) {
        settings.rate.algorithm = kAlgorithms[algorithm];
    }
    reader.read_scaled("fixed_gbit", settings.rate.fixed_rate, kGiga, 0.000001, kMostGbit);
    read_dcqcn(reader, settings);
    reader.read_scaled("min_time_between_cnps_us", settings.min_time_between_cnps_ns, kKilo, 0, kMostUs);
    reader.read_scaled("burst_kb", settings.burst_bytes, kKilo, 0, 100'000);
}

BitsPerSecond rate_of(const netsim::Topology& topology, netsim::NodeIndex host) {
    for (const netsim::TopologyLink& link : topology.links) {
        if (link.a == host || link.b == host) {
            return link.spec.rate;
        }
    }
    return netsim::kMinLinkRate;
}

std::vector<RenamedKey> renamed_keys() {
    std::vector<RenamedKey> keys;
    for (const std::string_view table : {"congestion", "host"}) {
        keys.push_back({table, "first_alpha", "initial_alpha"});
        for (const auto& [former, current] : congestion::former_names()) {
            keys.push_back({table, former, current});
        }
    }
    return keys;
}

// All go by [congestion]; a [[host]] changes that for one.
void read_hosts(TableReader& root, ExperimentConfig& config) {
    for (const netsim::NodeIndex node : config.topology.hosts()) {
        HostConfig host;
        host.name = config.topology.nodes[node].name;
        congestion::RateParameters& rate = host.settings.rate;
        rate.algorithm = config.link_layer == LinkLayer::kInfiniband ? congestion::Algorithm::kNone
                                                                     : congestion::Algorithm::kDcqcn;
        rate.line_rate = rate_of(config.topology, node);
        rate.fixed_rate = rate.line_rate;
        rate.timely = congestion::timely_of_paper();
        const congestion::DcqcnProfile& profile = congestion::dcqcn_profiles()[0];
        rate.dcqcn = congestion::parameters_for(profile, rate.line_rate);
        host.settings.min_time_between_cnps_ns = profile.min_time_between_cnps_ns;
        host.settings.burst_bytes = 2 * config.rnic.mtu_bytes;
        root.read_table("congestion",
                        [&host](TableReader& reader) { read_congestion(reader, host.settings); });
        config.hosts.push_back(host);
    }
    root.read_tables("host", [&config](TableReader& reader) {
        const std::string name = reader.find_text("name").value_or("");
        const auto found = std::find_if(config.hosts.begin(), config.hosts.end(),
                                        [&name](const HostConfig& host) { return host.name == name; });
        if (found == config.hosts.end()) {
            reader.fail("name", "must be the name of a host of the topology");
        }
        read_congestion(reader, found->settings);
    });
}

void read_rnic(TableReader& reader, LinkLayer link_layer, RnicConfig& rnic) {
    reader.read_whole("mtu", rnic.mtu_bytes, 256, 4096);
    if (!std::has_single_bit(rnic.mtu_bytes)) {
        reader.fail("mtu", "must be 256, 512, 1024, 2048 or 4096");
    }
    bool goes_back_n = !rnic.selective_repeat;
    reader.read_choice("recovery", goes_back_n, {"selective", "go-back-n"});
    rnic.selective_repeat = !goes_back_n;
    reader.read_whole("timeout", rnic.timeout_code, 0, 31);
    reader.read_whole("priority", rnic.priority, 0, 5);
    only_with(LinkLayer::kEthernet, link_layer, reader, "priority", "a [[flow]] has an 'sl'");
}

// `count` equal flows each; `from` may be several hosts, which gives as many flows.
void read_flow(TableReader& reader, ExperimentConfig& config) {
    FlowConfig flow;
    std::vector<std::string> from;
    if (const toml::node* const hosts = reader.find("from"); hosts != nullptr && hosts->is_array()) {
        reader.read_texts("from", from, 1, "[\"a\", \"b\"]");
    } else {
        from.push_back(reader.find_text("from").value_or(""));
    }
    reader.read_text("to", flow.to);
    reader.read_choice("verb", flow.verb, {"write", "read"});
    reader.read_scaled("message_kb", flow.message_bytes, 1024, 0.001, 1 << 20U);
    reader.read_whole("messages", flow.messages, 0, std::numeric_limits<std::int64_t>::max());
    reader.read_whole("depth", flow.depth, 1, 128);
    reader.read_scaled("start_us", flow.start_ns, kKilo, 0, kMostUs);
    reader.read_scaled("stop_us", flow.stop_ns, kKilo, 0, kMostUs);
    reader.read_whole("udp_source_port", flow.udp_source_port, 0, 65535);
    reader.read_whole("sl", flow.sl, 0, netsim::kSls - 1);
    only_with(LinkLayer::kEthernet, config.link_layer, reader, "udp_source_port",
              "its packets have no UDP header");
    only_with(LinkLayer::kInfiniband, config.link_layer, reader, "sl",
              "all data has the 'priority' of [rnic]");
    TimeNs step_ns = 0;
    reader.read_scaled("start_step_us", step_ns, kKilo, 0, kMostUs);
    const auto count = static_cast<std::uint64_t>(reader.find_whole("count", 1, kMaxFlows).value_or(1));
    std::string name = fmt::format("f{}", config.flows.size() + 1);
    reader.read_text("name", name);
    const std::uint64_t all = count * from.size();
    for (std::uint64_t i = 0; i < all; ++i) {
        FlowConfig each = flow;
        each.from = from[i % from.size()];
        each.name = all == 1 ? name : fmt::format("{}.{}", name, i + 1);
        each.start_ns += i * step_ns;
        config.flows.push_back(each);
    }
}

void read_tables(TableReader& reader, ExperimentConfig& config) {
    if (!reader.has("topology")) {
        throw TomlError{{}, "there is no [topology]"};
    }
    reader.read_table("topology", [&config](TableReader& table) {
        config.topology = read_topology(table, config.link_layer, config.fabric.ecmp_seed);
    });
    reader.read_table("rnic",
                      [&config](TableReader& table) { read_rnic(table, config.link_layer, config.rnic); });
    only_with(LinkLayer::kEthernet, config.link_layer, reader, "switch", "switches have what [subnet] says");
    only_with(LinkLayer::kEthernet, config.link_layer, reader, "fluid_port", "nothing marks packets there");
    only_with(LinkLayer::kInfiniband, config.link_layer, reader, "subnet",
              "switches have what [switch] says");
    reader.read_table("switch", [&config](TableReader& table) {
        read_switches(table, config.rnic.priority, config.fabric);
    });
    reader.read_table("subnet", [&config](TableReader& table) { config.subnet = read_subnet(table); });
    read_hosts(reader, config);
    reader.read_tables("flow", [&config](TableReader& table) { read_flow(table, config); });
}

ExperimentConfig read_config(const toml::table& root, const std::string& name) {
    TableReader reader(root);
    ExperimentConfig config;
    config.name = name;
    reader.read_text("name", config.name);
    (void)reader.find_text("about");
    reader.read_whole("seed", config.seed, 0, 1LL << 32U);
    reader.read_scaled("duration_us", config.duration_ns, kKilo, 1, kMostUs);
    reader.read_scaled("warm_up_us", config.warm_up_ns, kKilo, 0, kMostUs);
    reader.read_scaled("sample_us", config.sample_ns, kKilo, 1, kMostUs);
    reader.read_text("fluid_port", config.fluid_port);
    (void)reader.find_table("sweep");
    (void)reader.find_tables("variant");
    // What the table of docs/congestion.md is made of, and its picture: not for us.
    (void)reader.find_tables("expect");
    (void)reader.find_text("picture");
    reader.read_choice("link_layer", config.link_layer, {"ethernet", "infiniband"});
    read_tables(reader, config);
    reader.finish();
    if (const std::string problem = problem_of(config); !problem.empty()) {
        throw TomlError{{}, problem};
    }
    return config;
}

toml::table parse_value(const std::string& key, const std::string& value) {
    try {
        return parse_toml(fmt::format("value = {}", value));
    } catch (const TomlError&) {
        throw TomlError{{},
                        fmt::format("'{}' cannot be set to '{}': that is no TOML value (a text needs quotes)",
                                    key, value)};
    }
}

/// Each once, however many runs there are.
void warn(std::set<std::string>& warned, const std::string& warning) {
    if (warned.insert(warning).second) {
        fmt::print(stderr, "urnic experiment: warning: {}\n", warning);
    }
}

/// A file and what a command line changes in it.
struct Source {
    std::string_view text;
    const std::string& file;
    const Changes& changes;
    std::set<std::string> warned;
};

/// `path` with the present name of its key.
std::string present_path(Source& source, const std::string& path) {
    const std::size_t last = path.rfind('.');
    const std::size_t begin = last == std::string::npos ? 0 : last + 1;
    const std::string key = path.substr(begin);
    for (const RenamedKey& renamed : renamed_keys()) {
        if (renamed.old_key == key) {
            warn(source.warned,
                 message_of(
                     {{},
                      fmt::format("'{}' is called '{}' now; the next release does not read the old name",
                                  path, renamed.new_key)},
                     source.file));
            return path.substr(0, begin).append(renamed.new_key);
        }
    }
    return path;
}

toml::table read_document(Source& source) {
    const std::vector<RenamedKey> renamed = renamed_keys();
    toml::table root = parse_toml(source.text);
    const auto use_present_names = [&] {
        for (const std::string& warning : replace_old_keys(root, source.file, renamed)) {
            warn(source.warned, warning);
        }
    };
    use_present_names();
    for (const auto& [key, value] : source.changes) {
        change(root, present_path(source, key), *parse_value(key, value).get("value"));
    }
    use_present_names();  // in tables that were set
    return root;
}

Run make_run(Source& source, const Variation& variation) {
    const std::string name = std::filesystem::path(source.file).stem().string();
    toml::table root = read_document(source);  // not a copy, which would know no lines
    try {
        for (const auto& [key, value] : variation.changes) {
            change(root, present_path(source, key), *value);
        }
        return {variation.label, variation.is_variant, read_config(root, name)};
    } catch (const TomlError& error) {
        if (!variation.is_variant) {
            throw;
        }
        throw TomlError{error.where, fmt::format("[[variant]] \"{}\": {}", variation.label, error.text)};
    }
}

}  // namespace

std::vector<Run> read_experiment(std::string_view text, const std::string& file, const Changes& changes) {
    Source source{text, file, changes, {}};
    try {
        const toml::table root = read_document(source);
        std::vector<Run> runs;
        for (const Variation& variation : variations_of(root)) {
            runs.push_back(make_run(source, variation));
        }
        return runs;
    } catch (const TomlError& error) {
        throw ConfigError(message_of(error, file));
    }
}

}  // namespace urnic::experiment
