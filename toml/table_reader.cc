#include "toml/table_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace urnic {

namespace {

constexpr std::size_t kMostSuggested = 64;  // characters: who wrote more did not mistype a key

/// How many letters have to be added, removed, replaced, or swapped with the next to make `b` of `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    // Row i: from the first i letters of `a` to as many of `b` as the column says.
    std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) {
        for (std::size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                                   rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
            }
        }
    }
    return rows[a.size()][b.size()];
}

/// "a", "b" or "c"
std::string alternatives(const std::vector<std::string_view>& words) {
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
        text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
        text += fmt::format("\"{}\"", words[i]);
    }
    return text;
}

}  // namespace

std::string message_of(const TomlError& error, std::string_view file) {
    return error.where ? fmt::format("{}:{}:{}: {}", file, error.where.line, error.where.column, error.text)
                       : fmt::format("{}: {}", file, error.text);
}

toml::table parse_toml(std::string_view text) {
    try {
        return toml::parse(text);
    } catch (const toml::parse_error& error) {
        throw TomlError{error.source().begin, fmt::format("not valid TOML: {}", error.description())};
    }
}

void throw_at(const toml::node& node, std::string text) {
    throw TomlError{node.source().begin, std::move(text)};
}

TableReader::TableReader(const toml::table& table, const TableReader& parent, std::string_view key,
                         bool is_entry)
    : table_(&table),
      path_(parent.path_to(key)),
      is_entry_(is_entry),
      title_(is_entry ? fmt::format("[[{}]]", path_) : fmt::format("[{}]", path_)) {}

const toml::table& TableReader::nothing() {
    static const toml::table empty;
    return empty;
}

std::string TableReader::path_to(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

const toml::node* TableReader::find_as(std::string_view key, std::string shown) {
    const auto known =
        std::find_if(known_.begin(), known_.end(), [key](const KnownKey& each) { return each.name == key; });
    if (known == known_.end()) {
        known_.push_back({std::string(key), std::move(shown)});
    }
    return table_->get(key);
}

const toml::node* TableReader::find(std::string_view key) { return find_as(key, std::string(key)); }

void TableReader::fail_at(const toml::node& node, std::string_view key, std::string_view what) const {
    throw_at(node, fmt::format("'{}' in {} {}", key, title_, what));
}

void TableReader::fail(std::string_view key, std::string_view what) const {
    const toml::node* const node = table_->get(key);
    fail_at(node != nullptr ? *node : *table_, key, what);
}

std::optional<bool> TableReader::find_flag(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return std::nullopt;
    }
    if (!node->is_boolean()) {
        fail(key, "must be true or false");
    }
    return node->as_boolean()->get();
}

std::string TableReader::text_at(const toml::node& node, std::string_view key, std::string_view what) const {
    const auto* const text = node.as_string();
    if (text == nullptr || text->get().empty()) {
        fail_at(node, key, what.empty() ? "must be a string that is not empty" : what);
    }
    if (text->get().find('\0') != std::string::npos) {
        fail_at(node, key, "must not contain a NUL character");
    }
    return text->get();
}

std::optional<std::string> TableReader::find_text(std::string_view key) {
    const toml::node* const node = find(key);
    return node == nullptr ? std::nullopt : std::optional(text_at(*node, key));
}

std::int64_t TableReader::whole_at(const toml::node& node, std::string_view key, std::int64_t least,
                                   std::int64_t most, std::string_view what) const {
    const auto* const number = node.as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
        fail_at(node, key,
                what.empty() ? fmt::format("must be a whole number from {} to {}", least, most)
                             : std::string(what));
    }
    return number->get();
}

std::optional<std::int64_t> TableReader::find_whole(std::string_view key, std::int64_t least,
                                                    std::int64_t most) {
    const toml::node* const node = find(key);
    return node == nullptr ? std::nullopt : std::optional(whole_at(*node, key, least, most));
}

std::optional<double> TableReader::find_number(std::string_view key, double least, double most) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return std::nullopt;
    }
    const double number = node->is_number() ? *node->value<double>() : std::nan("");
    if (!(number >= least && number <= most)) {  // neither is so for NaN
        fail(key, fmt::format("must be a number from {:g} to {:g}", least, most));
    }
    return number;
}

std::optional<std::size_t> TableReader::find_choice(std::string_view key,
                                                    const std::vector<std::string_view>& words,
                                                    std::string_view explained) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return std::nullopt;
    }
    const std::string allowed = fmt::format("must be {}", alternatives(words));
    const std::string text = text_at(*node, key, allowed + std::string(explained));
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
        fail(key, fmt::format("{}, not \"{}\"{}", allowed, text, explained));
    }
    return static_cast<std::size_t>(found - words.begin());
}

const toml::array* TableReader::find_list(std::string_view key, std::size_t least, std::size_t most,
                                          std::string_view what) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return nullptr;
    }
    const toml::array* const list = node->as_array();
    if (list == nullptr || list->size() < least || list->size() > most) {
        fail(key, what);
    }
    return list;
}

bool TableReader::read_texts(std::string_view key, std::vector<std::string>& values, std::size_t least,
                             std::string_view example) {
    const toml::array* const list =
        find_list(key, least, SIZE_MAX, fmt::format("must be a list of strings, for example {}", example));
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
        values.push_back(text_at((*list)[i], key, "has an entry that must be a string that is not empty"));
    }
    return list != nullptr;
}

std::vector<std::int64_t> TableReader::find_wholes(std::string_view key, std::size_t count, std::int64_t most,
                                                   std::string_view order) {
    const std::string what =
        fmt::format("must be a list of {} whole numbers from 0 to {}, {}", count, most, order);
    const toml::array* const list = find_list(key, count, count, what);
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; list != nullptr && i < count; ++i) {
        values.push_back(whole_at((*list)[i], key, 0, most, what));
    }
    return values;
}

std::optional<TableReader::Pairs> TableReader::find_pairs(std::string_view key, std::size_t most_pairs,
                                                          std::int64_t most_first, std::int64_t most_second,
                                                          std::string_view what) {
    const std::string wanted = fmt::format("must be a list of at most {} pairs of {}", most_pairs, what);
    const toml::array* const list = find_list(key, 0, most_pairs, wanted);
    if (list == nullptr) {
        return std::nullopt;
    }
    Pairs pairs;
    for (const toml::node& entry : *list) {
        const toml::array* const pair = entry.as_array();
        if (pair == nullptr || pair->size() != 2) {
            fail_at(entry, key, wanted);
        }
        pairs.emplace_back(whole_at((*pair)[0], key, 0, most_first, wanted),
                           whole_at((*pair)[1], key, 0, most_second, wanted));
    }
    return pairs;
}

const toml::table* TableReader::find_table(std::string_view key) {
    const std::string shown = fmt::format("[{}]", path_to(key));
    const toml::node* const node = find_as(key, shown);
    if (node != nullptr && !node->is_table()) {
        fail(key, fmt::format("must be a table: {}{}", shown,
                              is_entry_ ? fmt::format(", behind its {}", title_) : ""));
    }
    return node == nullptr ? nullptr : node->as_table();
}

const toml::array* TableReader::find_tables(std::string_view key) {
    const std::string shown = fmt::format("[[{}]]", path_to(key));
    const toml::node* const node = find_as(key, shown);
    if (node != nullptr && !node->is_array_of_tables()) {
        fail(key, fmt::format("must be tables: {} (double brackets)", shown));
    }
    return node == nullptr ? nullptr : node->as_array();
}

void TableReader::finish() const {
    for (const auto& [key, node] : *table_) {
        const std::string_view name = key.str();
        if (std::none_of(known_.begin(), known_.end(),
                         [name](const KnownKey& each) { return each.name == name; })) {
            throw TomlError{key.source().begin,
                            fmt::format("unknown key '{}' in {}{}", name, title_, allowed_instead_of(name))};
        }
    }
}

std::string TableReader::allowed_instead_of(std::string_view name) const {
    std::size_t nearest = std::max<std::size_t>(name.size() / 3, 1);  // more changes make another word
    std::string meant;
    std::string all;
    for (const KnownKey& known : known_) {
        const std::size_t distance =
            name.size() > kMostSuggested ? name.size() : edit_distance(name, known.name);
        if (distance < nearest || (distance == nearest && meant.empty())) {
            nearest = distance;
            meant = fmt::format(" (did you mean {}?)", known.shown);
        }
        all += (all.empty() ? "" : ", ") + known.shown;
    }
    return fmt::format("{}; allowed: {}", meant, all);
}

}  // namespace urnic
