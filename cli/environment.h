// The environment of a program under `urnic run`.
#pragma once

#include <filesystem>

namespace urnic::cli {

/// How a program finds the RNICs' files: by a library in front of the C library's functions, or by mounts.
enum class Discovery { kPreload, kMounts };

/// Sets URNIC_RUN_DIR, RDMAV_DRIVERS and, for kPreload, LD_PRELOAD in this process, keeping what the caller
/// had preloaded. Throws LaunchError when a part is missing or lies at a path that a variable cannot hold.
void set_program_environment(const std::filesystem::path& run_dir, Discovery discovery);

}  // namespace urnic::cli
