// Mount namespaces in which the RNICs' files lie in /sys and /dev: that of `urnic run --mount`, and that of a
// process that runs already (`urnic enter`).
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace urnic::cli {

/// Gives this process, which has one thread, and its children a mount namespace in which
/// /sys/class/infiniband*, /sys/class/misc/rdma_cm and /dev/infiniband are those of the daemon at `run_dir`;
/// the rest of /sys and /dev stays as it is, but for entries that appear later beside them. Without
/// CAP_SYS_ADMIN also a user namespace, where user and group keep their numbers. Throws LaunchError.
void mount_rdma_tree(const std::filesystem::path& run_dir);

/// Does the same in the mount namespace that process `pid` has already, for all that are in it. This process
/// stays there. Returns false if they lay there before. Throws LaunchError, also when that namespace is the
/// caller's: there everybody would see them.
[[nodiscard]] bool mount_rdma_tree_of(pid_t pid, const std::filesystem::path& run_dir);

}  // namespace urnic::cli
