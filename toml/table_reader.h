// Reads the tables of a file in TOML: each key by its kind and range, and none that is not known. What is
// wrong is said with its place in the file, its key and what is allowed.
#pragma once

#include <toml++/toml.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace urnic {

/// The first mistake in a file; it ends the reading. Whoever reads a file catches it.
struct TomlError {
    toml::source_position where;  // line 0: nowhere in the file, such as what a command line sets
    std::string text;
};

/// "FILE:LINE:COLUMN: what", or "FILE: what".
[[nodiscard]] std::string message_of(const TomlError& error, std::string_view file);

/// Throws TomlError for text that is not TOML.
[[nodiscard]] toml::table parse_toml(std::string_view text);

[[noreturn]] void throw_at(const toml::node& node, std::string text);

/// What `Value` holds: of an optional its value.
template <typename Value>
struct HeldIn {
    using Type = Value;
};
template <typename Value>
struct HeldIn<std::optional<Value>> {
    using Type = Value;
};

class TableReader {
  public:
    explicit TableReader(const toml::table& document) : table_(&document) {}

    // Each reads the value of a key into `value`, which stays as it is where the key is absent. Returns
    // whether the key is there.

    template <typename Flag>
    bool read_flag(std::string_view key, Flag& value) {
        return assign(value, find_flag(key));
    }
    bool read_text(std::string_view key, std::string& value) { return assign(value, find_text(key)); }
    template <typename Whole>
    bool read_whole(std::string_view key, Whole& value, std::int64_t least, std::int64_t most) {
        using Held = typename HeldIn<Whole>::Type;
        URNIC_CHECK(std::in_range<Held>(least) && std::in_range<Held>(most));
        return assign(value, find_whole(key, least, most));
    }
    bool read_number(std::string_view key, double& value, double least, double most) {
        return assign(value, find_number(key, least, most));
    }
    /// A number, with or without a fraction, times `unit`, rounded.
    template <typename Whole>
    bool read_scaled(std::string_view key, Whole& value, double unit, double least, double most) {
        URNIC_CHECK(std::in_range<typename HeldIn<Whole>::Type>(std::llround(most * unit)));
        const auto number = find_number(key, least, most);
        return assign(value, number ? std::optional(std::llround(*number * unit)) : std::nullopt);
    }
    /// A text that is one of `words`, as its place among them; `explained` follows them in the message.
    template <typename Choice>
    bool read_choice(std::string_view key, Choice& value, const std::vector<std::string_view>& words,
                     std::string_view explained = {}) {
        return assign(value, find_choice(key, words, explained));
    }
    /// As many whole numbers from 0 as `values` has; `order` says whose they are, in the message.
    template <typename Whole, std::size_t N>
    bool read_wholes(std::string_view key, std::array<Whole, N>& values, std::int64_t most,
                     std::string_view order) {
        URNIC_CHECK(std::in_range<Whole>(most));
        const std::vector<std::int64_t> list = find_wholes(key, N, most, order);
        for (std::size_t i = 0; i < list.size(); ++i) {
            values[i] = static_cast<Whole>(list[i]);
        }
        return !list.empty();
    }
    template <typename Whole, std::size_t N>
    bool read_wholes(std::string_view key, std::optional<std::array<Whole, N>>& values, std::int64_t most,
                     std::string_view order) {
        std::array<Whole, N> list{};
        if (read_wholes(key, list, most, order)) {
            values = list;
        }
        return has(key);
    }
    /// At most so many pairs of whole numbers from 0; `what` says what they are: "a VL from 0 to 14 and ...".
    template <typename Pair, std::size_t N>
    bool read_pairs(std::string_view key, std::optional<std::array<Pair, N>>& values, std::int64_t most_first,
                    std::int64_t most_second, std::string_view what) {
        const auto list = find_pairs(key, N, most_first, most_second, what);
        if (!list) {
            return false;
        }
        auto& table = values.emplace();
        for (std::size_t i = 0; i < list->size(); ++i) {
            table[i] = {static_cast<std::uint8_t>((*list)[i].first),
                        static_cast<std::uint8_t>((*list)[i].second)};
        }
        return true;
    }
    /// A list of `least` strings or more; `example` shows one in the message.
    bool read_texts(std::string_view key, std::vector<std::string>& values, std::size_t least,
                    std::string_view example);

    // The value of a key that needs a closer look; nothing where the key is absent.

    [[nodiscard]] std::optional<bool> find_flag(std::string_view key);
    [[nodiscard]] std::optional<std::string> find_text(std::string_view key);
    [[nodiscard]] std::optional<std::int64_t> find_whole(std::string_view key, std::int64_t least,
                                                         std::int64_t most);
    [[nodiscard]] std::optional<double> find_number(std::string_view key, double least, double most);
    /// Of whatever kind.
    [[nodiscard]] const toml::node* find(std::string_view key);
    /// A list of `least` to `most` entries; `what`: "must be a list of ...".
    [[nodiscard]] const toml::array* find_list(std::string_view key, std::size_t least, std::size_t most,
                                               std::string_view what);
    [[nodiscard]] const toml::table* find_table(std::string_view key);
    /// An array of tables.
    [[nodiscard]] const toml::array* find_tables(std::string_view key);
    // Of an entry of a list, or a value that may be of several kinds. `what`: other words for "must be ...".
    [[nodiscard]] std::string text_at(const toml::node& node, std::string_view key,
                                      std::string_view what = {}) const;
    [[nodiscard]] std::int64_t whole_at(const toml::node& node, std::string_view key, std::int64_t least,
                                        std::int64_t most, std::string_view what = {}) const;

    /// Calls `read` with a reader of the table; of an empty one where the key is absent. Then finish()es it.
    template <typename Read>
    void read_table(std::string_view key, const Read& read) {
        const toml::table* const table = find_table(key);
        TableReader reader(table != nullptr ? *table : nothing(), *this, key, false);
        read(reader);
        reader.finish();
    }
    /// The same with each of an array of tables, which there need not be.
    template <typename Read>
    void read_tables(std::string_view key, const Read& read) {
        const toml::array* const tables = find_tables(key);
        for (std::size_t i = 0; tables != nullptr && i < tables->size(); ++i) {
            TableReader reader(*(*tables)[i].as_table(), *this, key, true);
            read(reader);
            reader.finish();
        }
    }

    [[nodiscard]] const toml::table& table() const { return *table_; }
    [[nodiscard]] bool has(std::string_view key) const { return table_->contains(key); }
    /// A key that nobody asked for is a mistake. To be called before what is checked across keys, so that a
    /// misspelt key is not taken for one that is missing.
    void finish() const;

    /// "'key' in [table] what", where the value stands, or the table when it is absent.
    [[noreturn]] void fail(std::string_view key, std::string_view what) const;
    [[noreturn]] void fail_at(const toml::node& node, std::string_view key, std::string_view what) const;

  private:
    TableReader(const toml::table& table, const TableReader& parent, std::string_view key, bool is_entry);

    template <typename Value, typename Found>
    static bool assign(Value& value, const std::optional<Found>& found) {
        if (found) {
            value = static_cast<typename HeldIn<Value>::Type>(*found);
        }
        return found.has_value();
    }
    [[nodiscard]] static const toml::table& nothing();

    [[nodiscard]] std::optional<std::size_t> find_choice(std::string_view key,
                                                         const std::vector<std::string_view>& words,
                                                         std::string_view explained);
    [[nodiscard]] std::vector<std::int64_t> find_wholes(std::string_view key, std::size_t count,
                                                        std::int64_t most, std::string_view order);
    using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
    [[nodiscard]] std::optional<Pairs> find_pairs(std::string_view key, std::size_t most_pairs,
                                                  std::int64_t most_first, std::int64_t most_second,
                                                  std::string_view what);
    [[nodiscard]] std::string path_to(std::string_view key) const;
    [[nodiscard]] std::string allowed_instead_of(std::string_view name) const;
    const toml::node* find_as(std::string_view key, std::string shown);

    struct KnownKey {
        std::string name;
        std::string shown;  // in the list of what is allowed: "mtu", "[rnic.pfc]"
    };
    const toml::table* table_;
    std::string path_;       // "rnic.pfc"; empty: the file itself
    bool is_entry_ = false;  // of an array of tables
    std::string title_ = "the file";
    std::vector<KnownKey> known_;
};

}  // namespace urnic
