#include "dataplane/config_wires.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace urnic::dataplane {

namespace {

constexpr std::int64_t kMostBytes = 4LL << 20U;  // that the frames of an EmulatedWire can hold
constexpr std::int64_t kLeastBuffer = 16384;

double real_of(const toml::node& node, const std::string& key, double least, double most) {
    const auto value = node.value<double>();
    if (!value || !node.is_number() || !(*value >= least && *value <= most)) {
        fail(node, fmt::format("'{}' must be a number from {} to {}", key, least, most));
    }
    return *value;
}

template <auto Member>
void set_bytes(WireConfig& wire, const toml::node& node, const std::string& key) {
    wire.*Member = static_cast<std::uint64_t>(number_of(node, key, 0, kMostBytes));
}

constexpr Key<WireConfig> kWireKeys[] = {
    {"fabric", [](WireConfig& wire, const toml::node& node,
                  const std::string& key) { wire.fabric = text_of(node, key); }},
    {"topology",
     [](WireConfig&, const toml::node& node, const std::string& key) {
         if (text_of(node, key) != "star") {
             fail(node, fmt::format("'{}' must be \"star\": RNICs around one switch", key));
         }
     }},
    {"link_mbps",
     [](WireConfig& wire, const toml::node& node, const std::string& key) {
         wire.link_rate = static_cast<std::uint64_t>(std::llround(real_of(node, key, 1, 100'000) * 1e6));
     }},
    {"delay_us",
     [](WireConfig& wire, const toml::node& node, const std::string& key) {
         wire.delay_ns = static_cast<TimeNs>(std::llround(real_of(node, key, 0, 100'000) * 1e3));
     }},
    {"buffer_bytes",
     [](WireConfig& wire, const toml::node& node, const std::string& key) {
         wire.buffer_bytes = static_cast<std::uint64_t>(number_of(node, key, kLeastBuffer, kMostBytes));
     }},
    {"ecn_kmin_bytes", set_bytes<&WireConfig::ecn_kmin_bytes>},
    {"ecn_kmax_bytes", set_bytes<&WireConfig::ecn_kmax_bytes>},
    {"ecn_pmax", [](WireConfig& wire, const toml::node& node,
                    const std::string& key) { wire.ecn_pmax = real_of(node, key, 0, 1); }},
};

bool is_on(const RnicConfig& rnic, const std::string& fabric) {
    return rnic.port == PortKind::kFabric && rnic.port_device == fabric;
}

/// The fabrics that there are, for a message.
std::string fabrics_of(const Config& config) {
    std::set<std::string> names;
    for (const RnicConfig& rnic : config.rnics) {
        if (rnic.port == PortKind::kFabric) {
            names.insert(rnic.port_device);
        }
    }
    std::string list;
    for (const std::string& name : names) {
        list += (list.empty() ? "\"" : ", \"") + name + "\"";
    }
    return list.empty() ? "none, since no [[rnic]] has port = \"fabric\"" : list;
}

void check_fabric(const toml::table& table, const WireConfig& wire, const Config& config) {
    const auto on_it = std::count_if(config.rnics.begin(), config.rnics.end(),
                                     [&](const RnicConfig& rnic) { return is_on(rnic, wire.fabric); });
    if (wire.fabric.empty()) {
        fail(table, fmt::format("this [[wire]] has no 'fabric'; there are: {}", fabrics_of(config)));
    }
    if (on_it == 0) {
        fail(table, fmt::format("'fabric' is \"{}\"; it must be one that RNICs are on: {}", wire.fabric,
                                fabrics_of(config)));
    }
    if (on_it == 1) {
        fail(table, fmt::format("the fabric \"{}\" has one RNIC: a [[wire]] needs two or more", wire.fabric));
    }
    if (std::any_of(config.wires.begin(), config.wires.end(),
                    [&](const WireConfig& other) { return other.fabric == wire.fabric; })) {
        fail(table, fmt::format("the fabric \"{}\" has a [[wire]] already; one says all", wire.fabric));
    }
}

void check_marks(const toml::table& table, const WireConfig& wire) {
    if (wire.ecn_kmax_bytes == 0) {
        if (wire.ecn_kmin_bytes != 0) {
            fail(table, "'ecn_kmin_bytes' needs 'ecn_kmax_bytes': without it nothing is marked");
        }
        return;
    }
    if (wire.ecn_kmin_bytes >= wire.ecn_kmax_bytes) {
        fail(table, "'ecn_kmin_bytes' must be less than 'ecn_kmax_bytes'");
    }
    if (wire.ecn_kmin_bytes >= wire.buffer_bytes) {
        fail(table, fmt::format("'ecn_kmin_bytes' must be less than 'buffer_bytes', which is {}: frames are "
                                "dropped before any is marked",
                                wire.buffer_bytes));
    }
}

}  // namespace

void read_wire_tables(const toml::node* wires, Config& config) {
    if (wires == nullptr) {
        return;
    }
    for (const auto& entry : *wires->as_array()) {
        const toml::table& table = *entry.as_table();
        WireConfig wire;
        read_table(table, "[[wire]]", kWireKeys, wire);
        check_fabric(table, wire, config);
        check_marks(table, wire);
        config.wires.push_back(wire);
    }
}

}  // namespace urnic::dataplane
