#include "daemon/config/congestion.h"

#include <fmt/format.h>

#include "congestion/setting_names.h"
#include "os/log.h"

namespace urnic::daemon {

namespace {

/// A value as the text that it would be on a command line.
std::string text_of_value(const toml::node& node, const std::string& key) {
    if (const auto* flag = node.as_boolean()) {
        return flag->get() ? "true" : "false";
    }
    if (const auto* number = node.as_integer()) {
        return std::to_string(number->get());
    }
    if (const auto* number = node.as_floating_point()) {
        return fmt::format("{}", number->get());
    }
    return get_string(node, key);
}

}  // namespace

void read_congestion(const toml::node& node, RnicConfig& rnic) {
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
        throw_at(node, "'congestion' must be a table: [rnic.congestion], behind its [[rnic]]");
    }
    std::vector<congestion::NamedValue> values;
    for (const auto& [name, value] : *table) {
        values.emplace_back(std::string(name.str()), text_of_value(value, std::string(name.str())));
    }
    if (const auto problem = congestion::apply_named(values, rnic.congestion)) {
        const toml::node* const where = table->get(problem->name);
        throw_at(where != nullptr ? *where : node, "[rnic.congestion]: " + problem->text);
    }
    if (const std::string former = congestion::former_names_in(values); !former.empty()) {
        log_warning("[rnic.congestion] of {}: {}", rnic.name, former);
    }
}

}  // namespace urnic::daemon
