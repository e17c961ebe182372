#include "cli/mount_tree.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/launch_error.h"
#include "os/unique_fd.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& what, int error) {
    throw LaunchError(fmt::format("{}: {}", what, std::strerror(error)));
}

void bind_mount(const std::string& from, const fs::path& to) {
    if (mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
        fail(fmt::format("cannot mount {} on {}", from, to.string()), errno);
    }
}

void make_file(const fs::path& path) {
    const UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    if (!file) fail("cannot make " + path.string(), errno);
}

/// Puts `from` at `to`, which is not there, in a directory that can be written.
void put_entry(const fs::path& from, const fs::path& to) {
    const fs::file_status status = fs::symlink_status(from);
    if (status.type() == fs::file_type::symlink) {
        fs::create_symlink(fs::read_symlink(from), to);
        return;
    }
    if (status.type() == fs::file_type::directory) {
        fs::create_directory(to);
    } else {
        make_file(to);
    }
    bind_mount(from.string(), to);
}

/// Covers a directory in which nothing can be made (sysfs, the system's /dev) with one that has the same
/// entries.
void cover(const fs::path& directory) {
    const UniqueFd covered(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!covered) fail("cannot open " + directory.string(), errno);
    std::vector<fs::path> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
        names.push_back(entry.path().filename());
    }
    if (mount("urnic", directory.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=1m") != 0) {
        fail("cannot mount a tmpfs on " + directory.string(), errno);
    }
    const fs::path source = fmt::format("/proc/self/fd/{}", covered.get());
    for (const fs::path& name : names) put_entry(source / name, directory / name);
}

/// Puts the daemon's directory `from` at `to`, whether that is there or not. `covered`: directories that are
/// ours already.
void place(const fs::path& from, const fs::path& to, std::set<fs::path>& covered) {
    if (!fs::is_directory(to)) {
        // A directory made by root in the system's own /dev would be seen by everybody.
        if (covered.insert(to.parent_path()).second) cover(to.parent_path());
        fs::create_directory(to);
    }
    bind_mount(from.string(), to);
}

void write_map(const char* path, const std::string& text) {
    const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        fail(fmt::format("cannot write {} for a user namespace", path), errno);
    }
}

void enter_namespaces() {
    if (unshare(CLONE_NEWNS) == 0) return;
    if (errno != EPERM) fail("cannot make a mount namespace", errno);
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        const int error = errno;
        throw LaunchError(fmt::format(
            "--mount needs CAP_SYS_ADMIN or a user namespace, and this kernel lets {} make none: {}. Run it "
            "as "
            "root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            "user.max_user_namespaces, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container --security-opt seccomp=...)",
            uid, std::strerror(error)));
    }
    write_map("/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", fmt::format("{0} {0} 1", uid));
    write_map("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
}

/// What the daemon's tree has: classes by name, the connection manager's, and the device files.
std::vector<std::pair<fs::path, fs::path>> placements(const fs::path& run_dir) {
    const fs::path tree = run_dir / "sysroot";
    const fs::path classes = tree / "sys/class";
    std::error_code missing;
    std::vector<std::pair<fs::path, fs::path>> made;
    for (const fs::directory_entry& entry : fs::directory_iterator(classes, missing)) {
        if (entry.path().filename() != "misc") {
            made.emplace_back(entry.path(), "/sys/class" / entry.path().filename());
        }
    }
    if (missing) {
        throw LaunchError(fmt::format("cannot read {}: {}; is a daemon running there?", classes.string(),
                                      missing.message()));
    }
    for (const char* name : {"sys/class/misc/rdma_cm", "dev/infiniband"}) {
        if (fs::is_directory(tree / name)) made.emplace_back(tree / name, fs::path("/") / name);
    }
    return made;
}

}  // namespace

void mount_rdma_tree(const fs::path& run_dir) {
    try {
        const auto places = placements(run_dir);
        enter_namespaces();
        // Nothing that is mounted from here on is seen outside, and what is mounted outside is not seen here.
        if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
            fail("cannot make the mounts of this namespace private", errno);
        }
        std::set<fs::path> covered;
        for (const auto& [from, to] : places) place(from, to, covered);
    } catch (const fs::filesystem_error& error) {
        throw LaunchError(error.what());
    }
}

}  // namespace urnic::cli
