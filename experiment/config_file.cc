#include "experiment/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "congestion/profiles.h"
#include "congestion/setting_names.h"
#include "experiment/subnet_file.h"
#include "experiment/variants.h"

namespace urnic::experiment {

namespace {

constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;
constexpr double kKilo = 1e3;
constexpr double kMostGbit = 1099;
constexpr double kMostUs = 1e9;
constexpr double kMostKb = 1e9;
constexpr std::uint64_t kMostHosts = netsim::kMaxNodes;

netsim::LinkSpec read_link(TableReader& reader, const char* rate_key, const char* delay_key,
                           const netsim::LinkSpec& otherwise) {
    return {reader.scaled(rate_key, kGiga, 0.001, kMostGbit, otherwise.rate),
            reader.scaled(delay_key, 1, 0, static_cast<double>(netsim::kMaxLinkDelayNs), otherwise.delay_ns)};
}

netsim::Topology read_custom(TableReader& reader, const netsim::LinkSpec& edge) {
    netsim::Topology topology;
    for (const std::string& name : reader.texts("hosts")) {
        (void)topology.add_host(name);
    }
    for (const std::string& name : reader.texts("switches")) {
        (void)topology.add_switch(name);
    }
    for (const toml::table* const each : reader.tables("link")) {
        TableReader link(*each, "[[topology.link]]");
        const std::vector<std::string> between = link.texts("between");
        if (between.size() != 2) {
            link.fail("between", "must name the two ends of the link");
        }
        std::array<netsim::NodeIndex, 2> ends{};
        for (std::size_t i = 0; i < 2; ++i) {
            ends[i] = topology.find(between[i]);
            if (ends[i] == netsim::kNoNode) {
                link.fail("between",
                          fmt::format("names \"{}\", which is neither a host nor a switch", between[i]));
            }
        }
        topology.connect(ends[0], ends[1], read_link(link, "rate_gbit", "delay_ns", edge));
        link.finish();
    }
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

netsim::Topology read_topology(const toml::table* table, LinkLayer link_layer, std::uint64_t& ecmp_seed) {
    if (table == nullptr) {
        throw ConfigError("there is no [topology]");
    }
    TableReader reader(*table, "[topology]");
    const netsim::LinkSpec edge = read_link(reader, "rate_gbit", "delay_ns", {40'000'000'000, 1'000});
    const std::size_t kind =
        reader.choice("kind", {"star", "dumbbell", "parking-lot", "leaf-spine", "custom"});
    ecmp_seed = reader.whole("ecmp_seed", 0, 1U << 31U, 1);
    only_with(LinkLayer::kEthernet, link_layer, reader, "ecmp_seed",
              "forwarding tables give each LID one way");
    const auto count = [&](const char* key, std::uint64_t least, std::uint64_t otherwise) {
        return static_cast<std::uint32_t>(reader.whole(key, least, kMostHosts, otherwise));
    };
    netsim::Topology topology;
    if (kind == 0) {
        topology = netsim::star(count("hosts", 2, 2), edge);
    } else if (kind == 4) {
        topology = read_custom(reader, edge);
    } else {
        const netsim::LinkSpec trunk = read_link(reader, "trunk_gbit", "trunk_delay_ns", edge);
        if (kind == 1) {
            topology = netsim::dumbbell(count("pairs", 1, 2), edge, trunk);
        } else if (kind == 2) {
            topology = netsim::parking_lot(count("switches", 2, 3), count("hosts_each", 1, 2), edge, trunk);
        } else {
            topology = netsim::leaf_spine(count("leaves", 2, 2), count("spines", 1, 2),
                                          count("hosts_each", 1, 2), edge, trunk);
        }
    }
    reader.finish();
    return topology;
}

void read_switches(const toml::table* table, std::uint8_t data_priority, netsim::NetworkOptions& fabric) {
    const toml::table nothing;
    TableReader reader(table != nullptr ? *table : nothing, "[switch]");
    netsim::SwitchOptions& options = fabric.switches;
    constexpr std::uint64_t kMostWeight = 1'000;
    const std::vector<std::uint64_t> weights = reader.wholes("weights", fabric.weights.size(), kMostWeight);
    std::copy(weights.begin(), weights.end(), fabric.weights.begin());
    options.buffer_bytes = reader.scaled("buffer_kb", kKilo, 1, kMostKb, 12'000'000);
    options.queue_bytes = reader.scaled("queue_kb", kKilo, 1, kMostKb, ~0ULL);
    netsim::EcnOptions ecn;
    ecn.kmin_bytes = reader.scaled("kmin_kb", kKilo, 0, kMostKb, 5'000);
    ecn.kmax_bytes = reader.scaled("kmax_kb", kKilo, 0, kMostKb, 200'000);
    ecn.pmax = Fraction::of(reader.scaled("pmax", kMega, 0, 1, 10'000), 1'000'000);
    if (!reader.flag("ecn", true)) {
        ecn.kmax_bytes = 0;
    }
    options.ecn.fill(ecn);
    const bool pfc = reader.flag("pfc", true);
    options.pfc.lossless = pfc ? static_cast<std::uint8_t>(1U << data_priority) : 0;
    options.pfc.xoff_bytes = reader.scaled("xoff_kb", kKilo, 0, kMostKb, 500'000);
    options.pfc.xon_bytes =
        reader.scaled("xon_kb", kKilo, 0, kMostKb, options.pfc.xoff_bytes - options.pfc.xoff_bytes / 10);
    options.pfc.headroom_bytes = reader.scaled("headroom_kb", kKilo, 0, kMostKb, 100'000);
    options.pfc.watchdog_ns = reader.scaled("watchdog_us", kKilo, 0, kMostUs, 0);
    reader.finish();
}

Fraction read_fraction(TableReader& reader, const char* key, Fraction otherwise) {
    return Fraction::from_raw(
        static_cast<std::uint32_t>(reader.scaled(key, Fraction::kOne, 0, 1, otherwise.raw())));
}

void read_dcqcn(TableReader& reader, congestion::Settings& settings) {
    std::vector<std::string_view> names;
    for (const congestion::DcqcnProfile& profile : congestion::dcqcn_profiles()) {
        names.push_back(profile.name);
    }
    congestion::DcqcnParameters& p = settings.rate.dcqcn;
    if (reader.has("profile")) {
        const congestion::DcqcnProfile& profile =
            congestion::dcqcn_profiles()[reader.choice("profile", names)];
        p = congestion::parameters_for(profile, settings.rate.line_rate);
        settings.min_time_between_cnps_ns = profile.min_time_between_cnps_ns;
    } else {
        (void)reader.choice("profile", names);
    }
    p.g = read_fraction(reader, "g", p.g);
    p.initial_alpha = read_fraction(reader, "initial_alpha", p.initial_alpha);
    p.alpha_period_ns = reader.scaled("alpha_period_us", kKilo, 0.1, kMostUs, p.alpha_period_ns);
    p.rate_reduce_monitor_period_ns =
        reader.scaled("rate_reduce_monitor_period_us", kKilo, 0, kMostUs, p.rate_reduce_monitor_period_ns);
    p.increase_period_ns = reader.scaled("increase_period_us", kKilo, 0.1, kMostUs, p.increase_period_ns);
    p.increase_bytes = reader.scaled("increase_kb", kKilo, 0, kMostKb, p.increase_bytes);
    p.recovery_stages =
        static_cast<std::uint32_t>(reader.whole("recovery_stages", 1, 1000, p.recovery_stages));
    p.additive_increase = reader.scaled("additive_increase_mbit", kMega, 0.001, 1e6, p.additive_increase);
    p.hyper_increase = reader.scaled("hyper_increase_mbit", kMega, 0.001, 1e6, p.hyper_increase);
    p.min_rate = reader.scaled("min_rate_mbit", kMega, 0.001, 1e6, p.min_rate);
}

void read_congestion(TableReader& reader, congestion::Settings& settings) {
    using congestion::Algorithm;
    constexpr std::array<Algorithm, 4> kAlgorithms = {Algorithm::kDcqcn, Algorithm::kNone, Algorithm::kFixed,
                                                      Algorithm::kTimely};
    const auto now = std::find(kAlgorithms.begin(), kAlgorithms.end(), settings.rate.algorithm);
    settings.rate.algorithm = kAlgorithms[reader.choice("algorithm", {"dcqcn", "none", "fixed", "timely"},
                                                        static_cast<std::size_t>(now - kAlgorithms.begin()))];
    settings.rate.fixed_rate =
        reader.scaled("fixed_gbit", kGiga, 0.000001, kMostGbit, settings.rate.fixed_rate);
    read_dcqcn(reader, settings);
    settings.min_time_between_cnps_ns =
        reader.scaled("min_time_between_cnps_us", kKilo, 0, kMostUs, settings.min_time_between_cnps_ns);
    settings.burst_bytes =
        static_cast<std::uint32_t>(reader.scaled("burst_kb", kKilo, 0, 100'000, settings.burst_bytes));
}

BitsPerSecond rate_of(const netsim::Topology& topology, netsim::NodeIndex host) {
    for (const netsim::TopologyLink& link : topology.links) {
        if (link.a == host || link.b == host) {
            return link.spec.rate;
        }
    }
    return netsim::kMinLinkRate;
}

/// What a key of [congestion] and [[host]] is called now.
std::string_view key_now(std::string_view key) {
    return key == "first_alpha" ? "initial_alpha" : congestion::current_name(key);
}

/// Gives keys that have the names of earlier releases the current ones, and warns of each.
void use_current_names(toml::table& table) {
    std::vector<std::string> former;
    for (const auto& [key, value] : table) {
        if (key_now(key.str()) != key.str()) {
            former.emplace_back(key.str());
        }
    }
    for (const std::string& key : former) {
        const std::string_view now = key_now(key);
        if (table.contains(now)) {
            throw ConfigError(fmt::format("'{}' and '{}' are the same", key, now));
        }
        fmt::print(
            stderr,
            "urnic experiment: warning: '{}' is now '{}'; the next release will not read former names\n", key,
            now);
        table.insert_or_assign(now, *table.get(key));
        table.erase(key);
    }
}

void use_current_names_in(toml::table& root) {
    if (toml::table* const common = root["congestion"].as_table()) {
        use_current_names(*common);
    }
    if (toml::array* const hosts = root["host"].as_array()) {
        for (toml::node& host : *hosts) {
            if (toml::table* const table = host.as_table()) {
                use_current_names(*table);
            }
        }
    }
}

// All go by [congestion]; a [[host]] changes that for one.
void read_hosts(TableReader& root, ExperimentConfig& config) {
    const toml::table* const common = root.table("congestion");
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
        if (common != nullptr) {
            TableReader reader(*common, "[congestion]");
            read_congestion(reader, host.settings);
            reader.finish();
        }
        config.hosts.push_back(host);
    }
    for (const toml::table* const each : root.tables("host")) {
        TableReader reader(*each, "[[host]]");
        const std::string name = reader.text("name", {});
        const auto found = std::find_if(config.hosts.begin(), config.hosts.end(),
                                        [&name](const HostConfig& host) { return host.name == name; });
        if (found == config.hosts.end()) {
            reader.fail("name", "must be the name of a host of the topology");
        }
        read_congestion(reader, found->settings);
        reader.finish();
    }
}

void read_rnic(const toml::table* table, LinkLayer link_layer, RnicConfig& rnic) {
    const toml::table nothing;
    TableReader reader(table != nullptr ? *table : nothing, "[rnic]");
    rnic.mtu_bytes = static_cast<std::uint32_t>(reader.whole("mtu", 256, 4096, rnic.mtu_bytes));
    if ((rnic.mtu_bytes & (rnic.mtu_bytes - 1)) != 0) {
        reader.fail("mtu", "must be 256, 512, 1024, 2048 or 4096");
    }
    rnic.selective_repeat = reader.choice("recovery", {"selective", "go-back-n"}) == 0;
    rnic.timeout_code = static_cast<std::uint8_t>(reader.whole("timeout", 0, 31, rnic.timeout_code));
    rnic.priority = static_cast<std::uint8_t>(reader.whole("priority", 0, 5, rnic.priority));
    only_with(LinkLayer::kEthernet, link_layer, reader, "priority", "a [[flow]] has an 'sl'");
    reader.finish();
}

// `count` equal flows each; `from` may be several hosts, which gives as many flows.
void read_flow(const toml::table& table, ExperimentConfig& config) {
    TableReader reader(table, "[[flow]]");
    FlowConfig flow;
    const std::vector<std::string> from = reader.has("from") && table.get("from")->is_array()
                                              ? reader.texts("from")
                                              : std::vector{reader.text("from", {})};
    flow.to = reader.text("to", {});
    flow.verb = reader.choice("verb", {"write", "read"}) == 0 ? Verb::kWrite : Verb::kRead;
    flow.message_bytes =
        static_cast<std::uint32_t>(reader.scaled("message_kb", 1024, 0.001, 1 << 20U, flow.message_bytes));
    flow.messages = reader.whole("messages", 0, ~0ULL >> 1U, 0);
    flow.depth = static_cast<std::uint32_t>(reader.whole("depth", 1, 128, flow.depth));
    flow.start_ns = reader.scaled("start_us", kKilo, 0, kMostUs, 0);
    flow.stop_ns = reader.scaled("stop_us", kKilo, 0, kMostUs, kNever);
    flow.udp_source_port = static_cast<std::uint16_t>(reader.whole("udp_source_port", 0, 65535, 0));
    flow.sl = static_cast<std::uint8_t>(reader.whole("sl", 0, netsim::kSls - 1, 0));
    only_with(LinkLayer::kEthernet, config.link_layer, reader, "udp_source_port",
              "its packets have no UDP header");
    only_with(LinkLayer::kInfiniband, config.link_layer, reader, "sl",
              "all data has the 'priority' of [rnic]");
    const std::uint64_t step_ns = reader.scaled("start_step_us", kKilo, 0, kMostUs, 0);
    const std::uint64_t count = reader.whole("count", 1, kMaxFlows, 1);
    const std::string name = reader.text("name", fmt::format("f{}", config.flows.size() + 1));
    reader.finish();
    const std::uint64_t all = count * from.size();
    for (std::uint64_t i = 0; i < all; ++i) {
        FlowConfig each = flow;
        each.from = from[i % from.size()];
        each.name = all == 1 ? name : fmt::format("{}.{}", name, i + 1);
        each.start_ns += i * step_ns;
        config.flows.push_back(each);
    }
}

ExperimentConfig read_config(const toml::table& root, const std::string& name) {
    TableReader reader(root, "the file");
    ExperimentConfig config;
    config.name = reader.text("name", name);
    (void)reader.text("about", {});
    config.seed = reader.whole("seed", 0, 1ULL << 32U, config.seed);
    config.duration_ns = reader.scaled("duration_us", kKilo, 1, kMostUs, config.duration_ns);
    config.warm_up_ns = reader.scaled("warm_up_us", kKilo, 0, kMostUs, 0);
    config.sample_ns = reader.scaled("sample_us", kKilo, 1, kMostUs, config.sample_ns);
    config.fluid_port = reader.text("fluid_port", {});
    (void)reader.table("sweep");
    (void)reader.tables("variant");
    // What the table of docs/congestion.md is made of, and its picture: not for us.
    (void)reader.tables("expect");
    (void)reader.text("picture", {});
    config.link_layer = reader.choice("link_layer", {"ethernet", "infiniband"}) == 0 ? LinkLayer::kEthernet
                                                                                     : LinkLayer::kInfiniband;
    config.topology = read_topology(reader.table("topology"), config.link_layer, config.fabric.ecmp_seed);
    read_rnic(reader.table("rnic"), config.link_layer, config.rnic);
    const toml::table* const switches = reader.table("switch");
    const toml::table* const subnet = reader.table("subnet");
    only_with(LinkLayer::kEthernet, config.link_layer, reader, "switch", "switches have what [subnet] says");
    only_with(LinkLayer::kEthernet, config.link_layer, reader, "fluid_port", "nothing marks packets there");
    only_with(LinkLayer::kInfiniband, config.link_layer, reader, "subnet",
              "switches have what [switch] says");
    read_switches(switches, config.rnic.priority, config.fabric);
    config.subnet = read_subnet(subnet);
    read_hosts(reader, config);
    for (const toml::table* const each : reader.tables("flow")) {
        read_flow(*each, config);
    }
    reader.finish();
    if (const std::string problem = problem_of(config); !problem.empty()) {
        throw ConfigError(problem);
    }
    return config;
}

toml::table parse(std::string_view text) {
    try {
        return toml::parse(text);
    } catch (const toml::parse_error& error) {
        throw ConfigError(fmt::format("line {}: {}", error.source().begin.line, error.description()));
    }
}

toml::table parse_value(const std::string& key, const std::string& value) {
    try {
        return toml::parse(fmt::format("value = {}", value));
    } catch (const toml::parse_error&) {
        throw ConfigError(fmt::format(
            "'{}' cannot be set to '{}': that is no TOML value (a text needs quotes)", key, value));
    }
}

/// The path of a key, with its current name.
std::string current_path(const std::string& path) {
    const std::size_t last = path.rfind('.');
    const std::size_t begin = last == std::string::npos ? 0 : last + 1;
    return path.substr(0, begin).append(key_now(std::string_view(path).substr(begin)));
}

Run make_run(const toml::table& root, const Variation& variation, const std::string& name) {
    if (variation.changes.empty()) {
        return {variation.label, variation.is_variant, read_config(root, name)};  // a copy knows no lines
    }
    toml::table changed = root;
    try {
        for (const auto& [key, value] : variation.changes) {
            change(changed, current_path(key), *value);
        }
        return {variation.label, variation.is_variant, read_config(changed, name)};
    } catch (const ConfigError& error) {
        if (!variation.is_variant) {
            throw;
        }
        throw ConfigError(fmt::format("[[variant]] \"{}\": {}", variation.label, error.what()));
    }
}

}  // namespace

std::vector<Run> read_experiment(std::string_view text, const std::string& name,
                                 const std::vector<std::pair<std::string, std::string>>& changes) {
    toml::table root = parse(text);
    for (const auto& [key, value] : changes) {
        change(root, key, *parse_value(key, value).get("value"));
    }
    use_current_names_in(root);
    std::vector<Run> runs;
    for (const Variation& variation : variations_of(root)) {
        runs.push_back(make_run(root, variation, name));
    }
    return runs;
}

}  // namespace urnic::experiment
