// Reading the tables of a configuration file: keys with their setters, values of one kind, where a mistake
// lies.
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace urnic::daemon {

/// Thrown while the file is read, never out of parse_config(): the first mistake ends the parse.
struct ParseError {
    toml::source_position where;
    std::string text;
};

[[noreturn]] inline void throw_at(const toml::node& node, std::string text) {
    throw ParseError{node.source().begin, std::move(text)};
}

template <typename Target>
struct Key {
    const char* name;
    void (*set)(Target&, const toml::node&, const std::string& key);
};

/// Calls the setter of every key of `table`; a key that has none is a mistake.
template <typename Target, std::size_t N>
void read_table(const toml::table& table, const std::string& title, const Key<Target> (&keys)[N],
                Target& target) {
    for (const auto& [name, node] : table) {
        const std::string_view text = name.str();
        const auto* key = std::find_if(std::begin(keys), std::end(keys),
                                       [&](const auto& candidate) { return text == candidate.name; });
        if (key == std::end(keys)) {
            std::string allowed;
            for (const auto& candidate : keys) {
                allowed += (allowed.empty() ? "" : ", ") + std::string(candidate.name);
            }
            throw ParseError{name.source().begin,
                             fmt::format("unknown key '{}' in {}; allowed: {}", name.str(), title, allowed)};
        }
        key->set(target, node, std::string(name.str()));
    }
}

/// The value of a key; a mistake when it is of another kind, or out of range.
[[nodiscard]] std::string get_string(const toml::node& node, const std::string& key);
[[nodiscard]] bool get_bool(const toml::node& node, const std::string& key);
/// Of two words; returns whether it is the second.
[[nodiscard]] bool is_second_of(const toml::node& node, const std::string& key, std::string_view first,
                                std::string_view second);
[[nodiscard]] std::int64_t get_int(const toml::node& node, const std::string& key, std::int64_t least,
                                   std::int64_t most);

}  // namespace urnic::daemon
