// Any of the daemon's answers as tables.
#pragma once

#include <string>

namespace urnic::cli {

/// The tables. The daemon's JSON is an object whose members are values, lists of objects (a table each) and
/// objects; whatever it names is shown under its own name. Throws LaunchError when `text` is no such JSON.
[[nodiscard]] std::string status_tables(const std::string& text);

}  // namespace urnic::cli
