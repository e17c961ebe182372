// Commands of `urnic` that are programs of their own.
#pragma once

#include "cli/layout.h"

namespace urnic::cli {

/// Replaces this process by `part`, which has its own options and help; `arguments` is the null-terminated
/// rest of the command line. Throws LaunchError when it is not installed or cannot run.
[[noreturn]] void become(Part part, char* const* arguments);

}  // namespace urnic::cli
