// `urnic decode`.
#pragma once

namespace urnic::launcher {

/// Replaces this process by the decoder of captures, which has the options and the help; `arguments` is the
/// null-terminated rest of the command line. Throws LaunchError when it is not installed or cannot run.
[[noreturn]] void decode(char* const* arguments);

}  // namespace urnic::launcher
