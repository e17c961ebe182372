#include "toml/renamed_keys.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "toml/table_reader.h"

namespace urnic {

namespace {

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

/// As messages show it.
std::string shown(std::string_view key, const toml::node& value) {
    return value.is_array_of_tables() ? fmt::format("[[{}]]", key) : fmt::format("'{}'", key);
}

/// Returns what to say of it, and where; nullopt: the old key is not there.
std::optional<TomlError> replace_key(toml::table& table, const RenamedKey& renamed) {
    const auto old = table.find(renamed.old_key);
    if (old == table.end()) {
        return std::nullopt;
    }
    const toml::source_region source = old->first.source();
    const std::string old_name =
        shown(renamed.old_key, old->second) +
        (renamed.table.empty() ? std::string() : fmt::format(" in [{}]", renamed.table));
    const std::string name = shown(renamed.new_key, old->second);
    if (table.contains(renamed.new_key)) {
        throw TomlError{source.begin,
                        fmt::format("{} is the old name of {}, which is there as well: give {} alone",
                                    old_name, name, name)};
    }
    table.insert(toml::key(renamed.new_key, source), std::move(old->second));
    table.erase(renamed.old_key);
    return TomlError{
        source.begin,
        fmt::format("{} is called {} now; the next release does not read the old name", old_name, name)};
}

}  // namespace

std::vector<std::string> replace_old_keys(toml::table& document, std::string_view file,
                                          std::span<const RenamedKey> renamed) {
    std::vector<std::string> warnings;
    for (const RenamedKey& each : renamed) {
        std::optional<TomlError> first;
        for_each_table(document, each.table, [&](toml::table& table) {
            auto found = replace_key(table, each);
            if (found && !first) {
                first = std::move(found);
            }
        });
        if (first) {
            warnings.push_back(message_of(*first, file));
        }
    }
    return warnings;
}

}  // namespace urnic
