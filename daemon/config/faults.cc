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

fault::Rule read_fault(TableReader& reader, const std::vector<RnicConfig>& rnics) {
    fault::Rule rule;
    if (!reader.has("type")) {
        throw_at(reader.table(), "this [[fault]] has no 'type', for example type = \"drop\"");
    }
    for (const auto& [name, node] : reader.table()) {
        const auto value = fault_value(*reader.find(name.str()));
        if (!value) {
            reader.fail(name.str(), "must be a number or a string");
        }
        if (const auto problem = fault::set_field(rule, name.str(), *value)) {
            throw_at(node, *problem);
        }
    }
    if (const auto problem = fault::check_rule(rule)) {
        throw_at(reader.table(), *problem);
    }
    if (!rule.device.empty() && std::none_of(rnics.begin(), rnics.end(), [&](const RnicConfig& rnic) {
            return rnic.name == rule.device;
        })) {
        reader.fail("device", fmt::format("is \"{}\"; it must be the name of an [[rnic]]", rule.device));
    }
    return rule;
}

}  // namespace

void read_faults(TableReader& reader, Config& config) {
    reader.read_tables("fault", [&config](TableReader& fault) {
        if (config.faults.size() == kMaxFaults) {
            throw_at(fault.table(), fmt::format("more than {} [[fault]] tables", kMaxFaults));
        }
        config.faults.push_back(read_fault(fault, config.rnics));
    });
}

}  // namespace urnic::daemon
