#include "daemon/config/congestion.h"

#include <fmt/format.h>

#include "congestion/setting_names.h"

namespace urnic::daemon {

namespace {

/// A value as the text that it would be on a command line.
std::string text_of_value(TableReader& reader, std::string_view key) {
    const toml::node& node = *reader.find(key);
    if (const auto* flag = node.as_boolean()) {
        return flag->get() ? "true" : "false";
    }
    if (const auto* number = node.as_integer()) {
        return std::to_string(number->get());
    }
    if (const auto* number = node.as_floating_point()) {
        return fmt::format("{}", number->get());
    }
    return reader.text_at(node, key);
}

}  // namespace

void read_congestion(TableReader& reader, RnicConfig& rnic) {
    std::vector<congestion::NamedValue> values;
    for (const auto& [name, value] : reader.table()) {
        values.emplace_back(std::string(name.str()), text_of_value(reader, name.str()));
    }
    if (const auto problem = congestion::apply_named(values, rnic.congestion)) {
        const toml::node* const where = reader.table().get(problem->name);
        throw_at(where != nullptr ? *where : reader.table(), "[rnic.congestion]: " + problem->text);
    }
}

}  // namespace urnic::daemon
