#include "cli/own_namespace.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "cli/launch_error.h"
#include "os/unique_fd.h"

namespace urnic::cli {

namespace {

void write_id_map(const char* path, const std::string& text) {
    const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        throw LaunchError(
            fmt::format("cannot write {} for a user namespace: {}", path, std::strerror(errno)));
    }
}

}  // namespace

void enter_own_namespace(int kind, std::string_view what, UserInside user) {
    if (unshare(kind) == 0) return;
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (errno != EPERM || unshare(CLONE_NEWUSER | kind) != 0) {
        throw LaunchError(fmt::format(
            "{} needs CAP_SYS_ADMIN or a user namespace, and this kernel lets {} make none: {}. Run it as "
            "root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0; in a container "
            "--security-opt seccomp=...)",
            what, uid, std::strerror(errno)));
    }
    const bool is_root = user == UserInside::kRoot;
    write_id_map("/proc/self/setgroups", "deny");
    write_id_map("/proc/self/uid_map", fmt::format("{} {} 1", is_root ? 0 : uid, uid));
    write_id_map("/proc/self/gid_map", fmt::format("{} {} 1", is_root ? 0 : gid, gid));
}

}  // namespace urnic::cli
