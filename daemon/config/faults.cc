#include "daemon/config/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace urnic::daemon {

namespace {

/// The value of a rule's field; nothing when it is of no such kind.
std::optional<fault::Value> fault_value(const toml::node& node) {
    if (const auto* flag = node.as_boolean()) {
        return flag->get();
    }
    if (const auto* number = node.as_integer()) {
        return number->get();
    }
    if (const auto* number = node.as_floating_point()) {
        return number->get();
    }
    const auto* text = node.as_string();
    return text == nullptr ? std::nullopt : std::optional<fault::Value>(text->get());
}

fault::Rule read_fault(const toml::table& table, const std::vector<RnicConfig>& rnics) {
    fault::Rule rule;
    if (!table.contains("type")) {
        throw_at(table, "this [[fault]] has no 'type', for example type = \"drop\"");
    }
    for (const auto& [name, node] : table) {
        const auto value = fault_value(node);
        if (!value) {
            throw_at(node, fmt::format("'{}' must be a number or a string", name.str()));
        }
        if (const auto problem = fault::set_field(rule, name.str(), *value)) {
            throw_at(node, *problem);
        }
    }
    if (const auto problem = fault::check_rule(rule)) {
        throw_at(table, *problem);
    }
    if (!rule.device.empty() && std::none_of(rnics.begin(), rnics.end(), [&](const RnicConfig& rnic) {
            return rnic.name == rule.device;
        })) {
        throw_at(table, fmt::format("'device' is \"{}\"; it must be the name of an [[rnic]]", rule.device));
    }
    return rule;
}

}  // namespace

void read_fault_tables(const toml::node* node, Config& config) {
    if (node == nullptr) {
        return;
    }
    for (const auto& entry : *node->as_array()) {
        config.faults.push_back(read_fault(*entry.as_table(), config.rnics));
    }
    if (config.faults.size() > kMaxFaults) {
        throw_at(*node, fmt::format("more than {} [[fault]] tables", kMaxFaults));
    }
}

}  // namespace urnic::daemon
