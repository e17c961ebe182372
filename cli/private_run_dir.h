// Where the daemon that `urnic run --standalone` starts has its sockets.
#pragma once

#include <filesystem>
#include <string>

namespace urnic::cli {

/// What makes make_run_dir() find a place.
inline constexpr const char* kRunDirHint = "point TMPDIR at a directory that you may write to";

/// Makes a directory that only this user can enter, in XDG_RUNTIME_DIR, TMPDIR or /tmp. Empty: none of them
/// takes one, and `tried` says why. `has_umad`: the daemon has sockets with longer paths in it, for
/// management of InfiniBand.
[[nodiscard]] std::filesystem::path make_run_dir(bool has_umad, std::string& tried);

}  // namespace urnic::cli
