// Which paths of a program are answered from the daemon's run directory.
#pragma once

#include <climits>

namespace urnic::shim {

/// Reads URNIC_RUN_DIR, once. Without it, or in a program that runs with more rights than its caller
/// (uid != euid), the shim changes nothing.
void load_environment();

/// Returns whether the program was started under `urnic run`.
[[nodiscard]] bool active();

/// Where active() is true: URNIC_RUN_DIR as it was at the start.
[[nodiscard]] const char* run_directory();

/// The path to use in place of `path`: below $URNIC_RUN_DIR/sysroot when it is one of the RDMA trees and
/// exists there, otherwise `path` itself. Preserves errno, allocates nothing, and may run in a signal handler
/// or in a child between vfork and exec.
class MappedPath {
  public:
    explicit MappedPath(const char* path);
    MappedPath(const MappedPath&) = delete;
    MappedPath& operator=(const MappedPath&) = delete;
    [[nodiscard]] const char* get() const { return path_; }

  private:
    const char* path_;
    char buffer_[PATH_MAX];
};

}  // namespace urnic::shim
