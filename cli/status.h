// `urnic status`.
#pragma once

#include <filesystem>
#include <string>

namespace urnic::cli {

/// Prints the status of the daemon at `socket`, as the JSON it sent or as tables.
void show_status(const std::filesystem::path& socket, bool json);

/// The tables. The daemon's JSON is an object whose members are values, lists of objects (a table each) and
/// objects; whatever it names is shown under its own name. Throws LaunchError when `text` is no such JSON.
[[nodiscard]] std::string status_tables(const std::string& text);

}  // namespace urnic::cli
