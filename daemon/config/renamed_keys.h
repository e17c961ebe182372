// Keys of the configuration file that have been renamed. Their old names are read for one release.
#pragma once

#include <string>
#include <vector>

#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// Replaces old names of keys by the present ones, so that what reads the tables knows the present ones
/// alone. Returns a warning for each old name, about the first place where it stands: "FILE:LINE:COLUMN:
/// what". Throws ParseError when a table has a setting under both names.
[[nodiscard]] std::vector<std::string> replace_old_keys(toml::table& document, const std::string& file);

}  // namespace urnic::daemon
