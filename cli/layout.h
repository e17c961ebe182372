// Where the parts of an installation lie, as seen from the running `urnic`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace urnic::cli {

enum class Part { kShim, kProvider, kDaemon, kDecoder, kExperiment, kIpoib, kConform, kConformAgent };

/// Places where `part` may be for an executable in `exe_dir`: first the build tree's, then the installed one.
[[nodiscard]] std::vector<std::filesystem::path> candidates(Part part, const std::filesystem::path& exe_dir);

/// The directory of the running executable, symbolic links resolved.
[[nodiscard]] std::filesystem::path executable_directory();

/// Absolute path of `part`. Throws LaunchError, naming the places searched, when it is nowhere.
[[nodiscard]] std::filesystem::path find_part(Part part);

}  // namespace urnic::cli
