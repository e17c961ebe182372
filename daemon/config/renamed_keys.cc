#include "daemon/config/renamed_keys.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

namespace urnic::daemon {

namespace {

struct RenamedKey {
    std::string_view table;  // the path to the tables that have the key; empty: the file itself
    const char* old_key;
    const char* new_key;
    const char* old_text;  // as messages show it
    const char* new_text;
};

constexpr RenamedKey kRenamedKeys[] = {
    {"", "wire", "network", "[[wire]]", "[[network]]"},
    {"daemon", "spin", "dedicated_cores", "'spin' in [daemon]", "'dedicated_cores'"},
    {"rnic.pfc", "honour", "rx_priorities", "'honour' in [rnic.pfc]", "'rx_priorities'"},
    {"rnic.pfc", "send", "tx_priorities", "'send' in [rnic.pfc]", "'tx_priorities'"},
};

/// Calls `function` for each table at the path; what is no table there is left to the readers.
template <typename Function>
void for_each_table(toml::node& node, std::string_view path, const Function& function) {
    if (toml::array* const list = node.as_array()) {
        for (toml::node& entry : *list) {
            for_each_table(entry, path, function);
        }
        return;
    }
    toml::table* const table = node.as_table();
    if (table == nullptr) {
        return;
    }
    if (path.empty()) {
        function(*table);
        return;
    }
    const std::size_t dot = path.find('.');
    if (toml::node* const child = table->get(path.substr(0, dot))) {
        for_each_table(*child, dot == std::string_view::npos ? "" : path.substr(dot + 1), function);
    }
}

/// Returns where the old key stood; nullopt: it does not.
std::optional<toml::source_position> replace_key(toml::table& table, const RenamedKey& renamed) {
    const auto old = table.find(renamed.old_key);
    if (old == table.end()) {
        return std::nullopt;
    }
    const toml::source_region source = old->first.source();
    if (table.contains(renamed.new_key)) {
        throw ParseError{source.begin, fmt::format("{} is the old name of {}, which is there as well: give "
                                                   "{} alone",
                                                   renamed.old_text, renamed.new_text, renamed.new_text)};
    }
    table.insert(toml::key(renamed.new_key, source), std::move(old->second));
    table.erase(renamed.old_key);
    return source.begin;
}

}  // namespace

std::vector<std::string> replace_old_keys(toml::table& document, const std::string& file) {
    std::vector<std::string> warnings;
    for (const RenamedKey& renamed : kRenamedKeys) {
        bool has_warned = false;
        for_each_table(document, renamed.table, [&](toml::table& table) {
            const auto where = replace_key(table, renamed);
            if (where && !has_warned) {
                has_warned = true;
                warnings.push_back(
                    fmt::format("{}:{}:{}: {} is called {} now; the next release does not "
                                "read the old name",
                                file, where->line, where->column, renamed.old_text, renamed.new_text));
            }
        });
    }
    return warnings;
}

}  // namespace urnic::daemon
