// What a user saw of a daemon when he last looked, so that the next look can tell what has happened since.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace urnic::cli {

struct LastLook {  // NOLINT(bugprone-exception-escape): json's destructor, where memory runs out
    /// The daemon's answer of then; null: there was none of this daemon.
    nlohmann::ordered_json status;
    /// Or since the daemon's start.
    double seconds_ago = 0;
};

/// Takes what was kept of the daemon at `socket`, and keeps `status` in its place, for the four daemons that
/// were looked at last: in urnic-status.json in XDG_RUNTIME_DIR or /run/user/UID, root's perhaps in /run.
/// Where none of them is the user's own, nothing is kept.
[[nodiscard]] LastLook exchange_last_look(const std::filesystem::path& socket,
                                          const nlohmann::ordered_json& status);

}  // namespace urnic::cli
