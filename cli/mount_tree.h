// `urnic run --mount`: the RNICs' files at their places in /sys and /dev, for programs that LD_PRELOAD does
// not reach (static binaries, programs that clear their environment, services that read sysfs by system
// calls).
#pragma once

#include <filesystem>

namespace urnic::cli {

/// Gives this process, which has one thread, and its children a mount namespace in which
/// /sys/class/infiniband*, /sys/class/misc/rdma_cm and /dev/infiniband are those of the daemon at `run_dir`;
/// the rest of /sys and /dev stays as it is, but for entries that appear later beside them. Without
/// CAP_SYS_ADMIN also a user namespace, where user and group keep their numbers. Throws LaunchError.
void mount_rdma_tree(const std::filesystem::path& run_dir);

}  // namespace urnic::cli
