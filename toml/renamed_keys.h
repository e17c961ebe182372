// Keys that have been renamed. Their old names are read for one release.
#pragma once

#include <toml++/toml.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace urnic {

struct RenamedKey {
    std::string_view table;  // the path to the tables that have it, "rnic.pfc"; empty: the file itself
    std::string_view old_key;
    std::string_view new_key;
};

/// Replaces old names of keys by the present ones, so that what reads the tables knows the present ones
/// alone. Returns a warning for each old name, about the first place where it stands, as message_of() has it.
/// Throws TomlError when a table has a setting under both names.
[[nodiscard]] std::vector<std::string> replace_old_keys(toml::table& document, std::string_view file,
                                                        std::span<const RenamedKey> renamed);

}  // namespace urnic
