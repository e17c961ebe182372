#include "cli/mount_tree.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cli/launch_error.h"
#include "cli/own_namespace.h"
#include "cli/placements.h"
#include "os/unique_fd.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& what, int error) {
    throw LaunchError(fmt::format("{}: {}", what, std::strerror(error)));
}

UniqueFd open_namespace(const std::string& process, const char* kind) {
    const std::string path = fmt::format("/proc/{}/ns/{}", process, kind);
    UniqueFd found(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!found && errno == ENOENT) {
        throw LaunchError(fmt::format("there is no process {}: give the ID of one that runs", process));
    }
    if (!found) {
        throw LaunchError(fmt::format("cannot open {}: {}; run this as root, or as the process's own user",
                                      path, std::strerror(errno)));
    }
    return found;
}

bool are_same(const UniqueFd& one, const UniqueFd& other) {
    struct stat first {};
    struct stat second {};
    return fstat(one.get(), &first) == 0 && fstat(other.get(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void join(const UniqueFd& space, int kind, pid_t pid) {
    if (setns(space.get(), kind) == 0) return;
    throw LaunchError(fmt::format("cannot enter the {} namespace of process {}: {}; run this as root{}",
                                  kind == CLONE_NEWUSER ? "user" : "mount", pid, std::strerror(errno),
                                  kind == CLONE_NEWUSER ? ", or as the user that made it" : ""));
}

void join_namespaces_of(pid_t pid) {
    const UniqueFd mounts = open_namespace(std::to_string(pid), "mnt");
    if (are_same(mounts, open_namespace("self", "mnt"))) {
        throw LaunchError(fmt::format(
            "process {} has no mount namespace of its own: whatever is mounted for it is seen by everybody. "
            "Start "
            "it anew with urnic run --mount, or if it is a service, with what urnic systemd-dropin prints",
            pid));
    }
    const UniqueFd owner(ioctl(mounts.get(), NS_GET_USERNS));
    if (!owner) {
        throw LaunchError(fmt::format(
            "cannot enter the namespaces of process {}: {}; run this outside of a container, as root or "
            "as the process's own user",
            pid, std::strerror(errno)));
    }
    if (!are_same(owner, open_namespace("self", "user"))) {
        uid_t uid = 0;
        (void)ioctl(owner.get(), NS_GET_OWNER_UID, &uid);
        // Who has all rights in there decides what paths mean; root would make files where a link of theirs
        // leads.
        if (geteuid() == 0 && uid != 0) {
            throw LaunchError(fmt::format(
                "process {0} is in a user namespace of user {1}: run this as that user (setpriv --reuid={1} "
                "--regid={1} --clear-groups urnic enter {0})",
                pid, uid));
        }
        join(owner, CLONE_NEWUSER, pid);
    }
    join(mounts, CLONE_NEWNS, pid);
}

}  // namespace

void mount_rdma_tree(const fs::path& run_dir) {
    Placements placements(run_dir);
    enter_own_namespace(CLONE_NEWNS, "--mount", UserInside::kSame);
    // Nothing that is mounted from here on is seen outside, and what is mounted outside is not seen here.
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        refuse("cannot make the mounts of this namespace private", errno);
    }
    placements.mount();
}

bool mount_rdma_tree_of(pid_t pid, const fs::path& run_dir) {
    Placements placements(run_dir);
    placements.hold();
    join_namespaces_of(pid);
    if (placements.are_mounted()) return false;
    placements.keep_within();
    placements.mount();
    return true;
}

}  // namespace urnic::cli
