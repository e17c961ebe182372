// The environment of a program under `urnic run`.
#pragma once

#include <filesystem>

namespace urnic::cli {

/// Sets LD_PRELOAD, URNIC_RUN_DIR and RDMAV_DRIVERS in this process, keeping what the caller had preloaded.
/// Throws LaunchError when a part is missing or lies at a path that LD_PRELOAD cannot hold.
void set_program_environment(const std::filesystem::path& run_dir);

}  // namespace urnic::cli
