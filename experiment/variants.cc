#include "experiment/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "toml/table_reader.h"

namespace urnic::experiment {

namespace {

/// The table of a list that has this name.
toml::table& named(toml::array& list, const std::string& name, const std::string& key) {
    const auto found = std::find_if(list.begin(), list.end(), [&name](const toml::node& each) {
        return (*each.as_table())["name"].value_or(std::string()) == name;
    });
    if (found == list.end()) {
        throw TomlError{{},
                        fmt::format("'{}' cannot be set: there is nothing with name = \"{}\"", key, name)};
    }
    return *found->as_table();
}

std::string text_of(const toml::node& value) {
    if (const auto* const number = value.as_floating_point(); number != nullptr) {
        return fmt::format("{}", number->get());
    }
    std::ostringstream text;
    value.visit([&text](const auto& each) { text << each; });
    return text.str();
}

std::vector<Variation> sweep_of(TableReader& reader) {
    const std::string key = reader.find_text("key").value_or("");
    const toml::node* const values = reader.find("values");
    reader.finish();
    if (key.empty() || values == nullptr || !values->is_array() || values->as_array()->empty()) {
        throw_at(reader.table(), "[sweep] needs key = \"congestion.g\", say, and values = [...]");
    }
    std::vector<Variation> variations;
    for (const toml::node& value : *values->as_array()) {
        variations.push_back({fmt::format("{} = {}", key, text_of(value)), false, {{key, &value}}});
    }
    return variations;
}

Variation variant_of(TableReader& reader, std::set<std::string>& names) {
    Variation variation;
    variation.is_variant = true;
    variation.label = reader.find_text("name").value_or("");
    const toml::table* const set = reader.find_table("set");
    reader.finish();
    if (variation.label.empty() || !names.insert(variation.label).second) {
        reader.fail("name", "must be there, and another one for each [[variant]]");
    }
    if (set != nullptr) {
        for (const auto& [key, value] : *set) {
            variation.changes.emplace_back(key.str(), &value);
        }
    }
    return variation;
}

}  // namespace

// The last word is a key of the table that the others lead to, which is made if need be.
void change(toml::table& root, const std::string& key, const toml::node& value) {
    toml::table* table = &root;
    toml::array* list = nullptr;  // whose table the next word names
    std::size_t begin = 0;
    for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
        const std::string word = key.substr(begin, dot - begin);
        begin = dot + 1;
        if (list != nullptr) {
            table = &named(*list, word, key);
            list = nullptr;
            continue;
        }
        toml::node& below = table->insert(word, toml::table()).first->second;
        if (below.is_array_of_tables()) {
            list = below.as_array();
        } else if (below.is_table()) {
            table = below.as_table();
        } else {
            throw TomlError{{},
                            fmt::format("'{}' cannot be set: '{}' is not a table", key, key.substr(0, dot))};
        }
    }
    if (begin == key.size()) {
        throw TomlError{{}, fmt::format("'{}' does not end in the name of a key", key)};
    }
    if (list != nullptr) {
        throw TomlError{{}, fmt::format("'{}' cannot be set: it is a table; name a key of it", key)};
    }
    table->insert_or_assign(key.substr(begin), value);
}

std::vector<Variation> variations_of(const toml::table& root) {
    TableReader reader(root);
    std::vector<Variation> variations;
    std::set<std::string> names;
    reader.read_tables("variant",
                       [&](TableReader& table) { variations.push_back(variant_of(table, names)); });
    if (reader.find_table("sweep") == nullptr) {
        return variations.empty() ? std::vector<Variation>(1) : variations;
    }
    if (!variations.empty()) {
        throw TomlError{{}, "a file has a [sweep] or [[variant]]s, not both"};
    }
    reader.read_table("sweep", [&variations](TableReader& table) { variations = sweep_of(table); });
    return variations;
}

}  // namespace urnic::experiment
