// Reads values of a TOML table: each key once, in range, and none that is not known.
#pragma once

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

namespace urnic::experiment {

/// What is wrong with an experiment's file, with the line where that is known.
class ConfigError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class TableReader {
  public:
    /// `title` is what messages call the table: "[topology]".
    TableReader(const toml::table& table, std::string title) : table_(table), title_(std::move(title)) {}

    /// Numbers may be written with a fraction. `otherwise` where the key is absent.
    [[nodiscard]] double number(std::string_view key, double least, double most, double otherwise);
    [[nodiscard]] std::uint64_t whole(std::string_view key, std::uint64_t least, std::uint64_t most,
                                      std::uint64_t otherwise);
    /// `number` times `unit`, rounded.
    [[nodiscard]] std::uint64_t scaled(std::string_view key, double unit, double least, double most,
                                       std::uint64_t otherwise);
    [[nodiscard]] bool flag(std::string_view key, bool otherwise);
    [[nodiscard]] std::string text(std::string_view key, std::string otherwise);
    /// A text that is one of `allowed`; the first of them where the key is absent. Returns its place.
    [[nodiscard]] std::size_t choice(std::string_view key, const std::vector<std::string_view>& allowed,
                                     std::size_t otherwise = 0);
    [[nodiscard]] std::vector<std::string> texts(std::string_view key);
    /// A list of that many whole numbers from 0 to `most`; zeros where the key is absent.
    [[nodiscard]] std::vector<std::uint64_t> wholes(std::string_view key, std::size_t count,
                                                    std::uint64_t most);
    /// A list of at most so many pairs of whole numbers from 0 on; empty where the key is absent.
    [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs(std::string_view key,
                                                                             std::size_t most_pairs,
                                                                             std::uint64_t most_first,
                                                                             std::uint64_t most_second);
    /// The key is there.
    [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }
    /// nullptr: the key is absent.
    [[nodiscard]] const toml::table* table(std::string_view key);
    /// Of an array of tables.
    [[nodiscard]] std::vector<const toml::table*> tables(std::string_view key);
    /// A key that nobody asked for is a mistake.
    void finish() const;

    [[noreturn]] void fail(std::string_view key, const std::string& what) const;

  private:
    [[nodiscard]] const toml::node* find(std::string_view key);

    const toml::table& table_;
    std::string title_;
    std::set<std::string, std::less<>> known_;
};

}  // namespace urnic::experiment
