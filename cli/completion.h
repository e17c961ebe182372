// Completion of command lines in shells, written from the commands as they are.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::cli {

/// A script for bash's programmable completion. `program`: name "urnic", with its commands.
[[nodiscard]] std::string bash_completion(const CommandText& program);

/// A function for zsh's completion system, for a file _urnic in $fpath.
[[nodiscard]] std::string zsh_completion(const CommandText& program);

}  // namespace urnic::cli
