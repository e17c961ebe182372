#include "experiment/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace urnic::experiment {

namespace {

std::string at_line(const toml::node& node) {
    const auto line = node.source().begin.line;
    return line == 0 ? std::string() : fmt::format("line {}: ", line);
}

// Not fmt::join, at which GCC 12 warns of an overflow that cannot be.
template <typename Texts>
std::string listed(const Texts& texts) {
    std::string list;
    for (const auto& each : texts) {
        list.append(list.empty() ? "" : ", ").append(each);
    }
    return list;
}

}  // namespace

const toml::node* TableReader::find(std::string_view key) {
    known_.emplace(key);
    return table_.get(key);
}

void TableReader::fail(std::string_view key, const std::string& what) const {
    const toml::node* const node = table_.get(key);
    throw ConfigError(
        fmt::format("{}'{}' in {} {}", at_line(node != nullptr ? *node : table_), key, title_, what));
}

double TableReader::number(std::string_view key, double least, double most, double otherwise) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return otherwise;
    }
    const bool is_number = node->is_integer() || node->is_floating_point();
    const double value = is_number ? *node->value<double>() : 0;
    if (!is_number || !std::isfinite(value) || value < least || value > most) {
        fail(key, fmt::format("must be a number from {:g} to {:g}", least, most));
    }
    return value;
}

std::uint64_t TableReader::whole(std::string_view key, std::uint64_t least, std::uint64_t most,
                                 std::uint64_t otherwise) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return otherwise;
    }
    const auto* const value = node->as_integer();
    if (value == nullptr || value->get() < 0 || static_cast<std::uint64_t>(value->get()) < least ||
        static_cast<std::uint64_t>(value->get()) > most) {
        fail(key, fmt::format("must be a whole number from {} to {}", least, most));
    }
    return static_cast<std::uint64_t>(value->get());
}

std::uint64_t TableReader::scaled(std::string_view key, double unit, double least, double most,
                                  std::uint64_t otherwise) {
    if (find(key) == nullptr) {
        return otherwise;
    }
    return static_cast<std::uint64_t>(std::llround(number(key, least, most, least) * unit));
}

bool TableReader::flag(std::string_view key, bool otherwise) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return otherwise;
    }
    if (!node->is_boolean()) {
        fail(key, "must be true or false");
    }
    return node->as_boolean()->get();
}

std::string TableReader::text(std::string_view key, std::string otherwise) {
    const toml::node* const node = find(key);
    if (node == nullptr) {
        return otherwise;
    }
    if (!node->is_string() || node->as_string()->get().empty()) {
        fail(key, "must be a string that is not empty");
    }
    return node->as_string()->get();
}

std::size_t TableReader::choice(std::string_view key, const std::vector<std::string_view>& allowed,
                                std::size_t otherwise) {
    if (find(key) == nullptr) {
        return otherwise;
    }
    const std::string value = text(key, {});
    for (std::size_t i = 0; i < allowed.size(); ++i) {
        if (allowed[i] == value) {
            return i;
        }
    }
    fail(key, fmt::format("is \"{}\"; allowed are {}", value, listed(allowed)));
}

std::vector<std::string> TableReader::texts(std::string_view key) {
    const toml::node* const node = find(key);
    std::vector<std::string> list;
    if (node == nullptr) {
        return list;
    }
    if (const auto* const array = node->as_array(); array != nullptr) {
        for (const toml::node& each : *array) {
            list.push_back(each.value_or(std::string()));
        }
    }
    if (list.empty() || std::find(list.begin(), list.end(), std::string()) != list.end()) {
        fail(key, "must be a list of strings");
    }
    return list;
}

std::vector<std::uint64_t> TableReader::wholes(std::string_view key, std::size_t count, std::uint64_t most) {
    const toml::node* const node = find(key);
    std::vector<std::uint64_t> list;
    if (node == nullptr) {
        list.resize(count);
        return list;
    }
    if (const auto* const array = node->as_array(); array != nullptr) {
        for (const toml::node& each : *array) {
            const std::int64_t value = each.is_integer() ? each.value_or(std::int64_t{-1}) : -1;
            if (value >= 0 && static_cast<std::uint64_t>(value) <= most) {
                list.push_back(static_cast<std::uint64_t>(value));
            }
        }
    }
    if (list.size() != count || node->as_array()->size() != count) {
        fail(key, fmt::format("must be a list of {} whole numbers from 0 to {}", count, most));
    }
    return list;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> TableReader::pairs(std::string_view key,
                                                                        std::size_t most_pairs,
                                                                        std::uint64_t most_first,
                                                                        std::uint64_t most_second) {
    const toml::node* const node = find(key);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> list;
    if (node == nullptr) {
        return list;
    }
    const auto* const array = node->as_array();
    bool is_right = array != nullptr && array->size() <= most_pairs;
    for (std::size_t i = 0; is_right && i < array->size(); ++i) {
        const auto* const pair = (*array)[i].as_array();
        is_right = pair != nullptr && pair->size() == 2;
        const auto part = [&](std::size_t which, std::uint64_t most) {
            const auto* const number = (*pair)[which].as_integer();
            const auto value =
                number == nullptr ? ~std::uint64_t{0} : static_cast<std::uint64_t>(number->get());
            is_right = is_right && value <= most;
            return value;
        };
        if (is_right) {
            const std::uint64_t first = part(0, most_first);
            list.emplace_back(first, part(1, most_second));
        }
    }
    if (!is_right) {
        fail(key,
             fmt::format("must be a list of at most {} pairs of whole numbers, the first from 0 to {} and "
                         "the second from 0 to {}",
                         most_pairs, most_first, most_second));
    }
    return list;
}

const toml::table* TableReader::table(std::string_view key) {
    const toml::node* const node = find(key);
    if (node != nullptr && !node->is_table()) {
        fail(key, fmt::format("must be a table: [{}]", key));
    }
    return node == nullptr ? nullptr : node->as_table();
}

std::vector<const toml::table*> TableReader::tables(std::string_view key) {
    const toml::node* const node = find(key);
    std::vector<const toml::table*> list;
    if (node == nullptr) {
        return list;
    }
    if (!node->is_array_of_tables()) {
        fail(key, fmt::format("must be tables: [[{}]]", key));
    }
    for (const toml::node& each : *node->as_array()) {
        list.push_back(each.as_table());
    }
    return list;
}

void TableReader::finish() const {
    for (const auto& [key, node] : table_) {
        if (!known_.contains(key.str())) {
            throw ConfigError(fmt::format("{}'{}' in {} is not a key of it; allowed are {}", at_line(node),
                                          key.str(), title_, listed(known_)));
        }
    }
}

}  // namespace urnic::experiment
