// The daemon's directories at their places in /sys and /dev, for programs that LD_PRELOAD does not reach
// (static binaries, programs that clear their environment, services that read sysfs by system calls).
#pragma once

#include <filesystem>
#include <set>
#include <vector>

#include "os/unique_fd.h"

namespace urnic::cli {

class Placements {
  public:
    struct Directory {
        std::filesystem::path from;  // in the daemon's tree
        std::filesystem::path to;    // where programs look for it
    };

    /// Those of the daemon at `run_dir`: /sys/class/infiniband*, /sys/class/misc/rdma_cm, /dev/infiniband.
    /// Throws LaunchError.
    explicit Placements(const std::filesystem::path& run_dir);

    [[nodiscard]] const std::vector<Directory>& directories() const { return directories_; }

    /// Takes hold of the directories, so that mount() finds them in a mount namespace that has no path to
    /// them. Does nothing where this process may not (CAP_SYS_ADMIN, Linux 5.2): then mount() goes by their
    /// paths.
    void hold();

    /// Lets what mount() mounts be seen in no other mount namespace, whatever that of this process shares.
    /// Throws LaunchError.
    void keep_within() const;

    /// Mounts them in the mount namespace of this process. Throws LaunchError.
    void mount();

    /// Returns whether all lie at their places already.
    [[nodiscard]] bool are_mounted() const;

  private:
    void place(const Directory& directory, const UniqueFd& held);

    std::vector<Directory> directories_;
    std::vector<UniqueFd> held_;            // beside directories_, or empty
    std::set<std::filesystem::path> ours_;  // directories that were covered
};

}  // namespace urnic::cli
