#include "cli/status.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/launch_error.h"
#include "cli/table.h"

namespace urnic::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_table(const Json& value) {
    return value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const Json& row) { return row.is_object(); });
}

bool is_zero(const Json& value) { return value.is_number() && value == 0; }

/// A value on one line.
std::string cell(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_null()) return "-";
    if (value.is_array()) {
        std::string joined;
        for (const Json& item : value) joined += (joined.empty() ? "" : ", ") + cell(item);
        return joined.empty() ? "-" : joined;
    }
    return value.dump();
}

/// More do not fit on a line.
constexpr std::size_t kMostColumns = 16;

using Row = TableRow;

/// A table with a line for each column and a column for each row, without lines of nothing but zeros.
std::vector<Row> turned(const std::vector<Row>& rows) {
    std::vector<Row> lines;
    std::size_t zeros = 0;
    for (std::size_t column = 0; column < rows[0].size(); ++column) {
        Row line;
        for (const Row& row : rows) line.push_back(row[column]);
        const bool zero =
            std::all_of(line.begin() + 1, line.end(), [](const std::string& text) { return text == "0"; });
        if (zero) {
            ++zeros;
        } else {
            lines.push_back(std::move(line));
        }
    }
    if (zeros != 0) lines.push_back({fmt::format("({} more are zero)", zeros)});
    return lines;
}

void print_object(std::string& out, const std::string& title, const Json& object);

/// A table of the members that fit into a cell; the others follow under "TITLE NAME".
void print_table(std::string& out, const std::string& title, const Json& list) {
    Row columns;
    for (const Json& row : list) {
        for (const auto& [key, value] : row.items()) {
            const bool fits = !value.is_object() && !is_table(value);
            if (fits && std::find(columns.begin(), columns.end(), key) == columns.end())
                columns.push_back(key);
        }
    }
    std::vector<Row> rows = {columns};
    for (const Json& entry : list) {
        Row& row = rows.emplace_back();
        for (const std::string& key : columns) row.push_back(entry.contains(key) ? cell(entry[key]) : "-");
    }
    out += fmt::format("\n{}\n{}", title, align_table(columns.size() > kMostColumns ? turned(rows) : rows));
    for (const Json& entry : list) {
        const std::string name = columns.empty() ? "" : " " + rows[1 + (&entry - &list[0])][0];
        for (const auto& [key, value] : entry.items()) {
            if (is_table(value)) print_table(out, fmt::format("{}{}: {}", title, name, key), value);
            if (value.is_object()) print_object(out, fmt::format("{}{}: {}", title, name, key), value);
        }
    }
}

/// One member a line. Zeros are left out and counted: a device has dozens of counters that never move.
void print_object(std::string& out, const std::string& title, const Json& object) {
    std::vector<Row> rows;
    std::size_t zeros = 0;
    for (const auto& [key, value] : object.items()) {
        if (is_table(value) || value.is_object()) continue;
        if (is_zero(value)) {
            ++zeros;
        } else {
            rows.push_back({key, cell(value)});
        }
    }
    if (zeros != 0) rows.push_back({fmt::format("({} more are zero)", zeros)});
    if (!title.empty()) out += fmt::format("\n{}\n", title);
    out += align_table(rows);
    for (const auto& [key, value] : object.items()) {
        const std::string name = title.empty() ? key : fmt::format("{}: {}", title, key);
        if (is_table(value)) print_table(out, name, value);
        if (value.is_object()) print_object(out, name, value);
    }
}

}  // namespace

std::string status_tables(const std::string& text) {
    const Json status = Json::parse(text, nullptr, false);
    if (!status.is_object())
        throw LaunchError("the daemon's status is not a JSON object: use the urnic of its release");
    std::string out;
    print_object(out, "", status);
    return out;
}

}  // namespace urnic::cli
