#include "cli/placements.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& what, int error) {
    throw LaunchError(fmt::format("{}: {}", what, std::strerror(error)));
}

void bind_mount(const fs::path& from, const fs::path& to) {
    if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
        fail(fmt::format("cannot mount {} on {}", from.string(), to.string()), errno);
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
    bind_mount(from, to);
}

UniqueFd open_directory(const fs::path& path) {
    UniqueFd directory(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory) fail("cannot open " + path.string(), errno);
    return directory;
}

void change_to(const UniqueFd& directory) {
    if (fchdir(directory.get()) != 0) fail("cannot change to a directory", errno);
}

/// Covers a directory in which nothing can be made (sysfs, the system's /dev) with one that has the same
/// entries.
void cover(const fs::path& directory) {
    const UniqueFd here = open_directory(".");
    const UniqueFd covered = open_directory(directory);
    std::vector<fs::path> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
        names.push_back(entry.path().filename());
    }
    if (::mount("urnic", directory.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=1m") != 0) {
        fail("cannot mount a tmpfs on " + directory.string(), errno);
    }
    // What is covered has no path but that of a process which is there; another mount namespace's /proc need
    // not know this process.
    change_to(covered);
    for (const fs::path& name : names) put_entry(name, directory / name);
    change_to(here);
}

/// Where the file system is mounted that `path`, or the nearest directory above it, is in.
fs::path mount_point_of(fs::path path) {
    for (; path != "/"; path = path.parent_path()) {
        struct statx found {};
        if (statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT, STATX_MODE, &found) == 0 &&
            (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
            break;
        }
    }
    return path;
}

}  // namespace

Placements::Placements(const fs::path& run_dir) {
    const fs::path tree = run_dir / "sysroot";
    const fs::path classes = tree / "sys/class";
    std::error_code missing;
    for (const fs::directory_entry& entry : fs::directory_iterator(classes, missing)) {
        if (entry.path().filename() != "misc") {
            directories_.push_back({entry.path(), "/sys/class" / entry.path().filename()});
        }
    }
    if (missing) {
        throw LaunchError(fmt::format("cannot read {}: {}; is a daemon running there?", classes.string(),
                                      missing.message()));
    }
    for (const char* name : {"sys/class/misc/rdma_cm", "dev/infiniband"}) {
        if (fs::is_directory(tree / name)) directories_.push_back({tree / name, fs::path("/") / name});
    }
}

void Placements::hold() {
    std::vector<UniqueFd> trees;
    for (const Directory& directory : directories_) {
        UniqueFd tree(
            open_tree(AT_FDCWD, directory.from.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
        if (!tree) return;
        trees.push_back(std::move(tree));
    }
    held_ = std::move(trees);
}

void Placements::keep_within() const {
    std::set<fs::path> roots;
    for (const Directory& directory : directories_) roots.insert(mount_point_of(directory.to));
    for (const fs::path& root : roots) {
        // It still receives what is mounted elsewhere.
        if (::mount(nullptr, root.c_str(), nullptr, MS_SLAVE, nullptr) != 0) {
            fail(fmt::format("cannot keep mounts below {} within the namespace", root.string()), errno);
        }
    }
}

void Placements::mount() {
    static const UniqueFd kNone;
    try {
        for (std::size_t i = 0; i < directories_.size(); ++i) {
            place(directories_[i], held_.empty() ? kNone : held_[i]);
        }
    } catch (const fs::filesystem_error& error) {
        throw LaunchError(error.what());
    }
}

/// Whether the place is there or not.
void Placements::place(const Directory& directory, const UniqueFd& held) {
    if (!fs::is_directory(directory.to)) {
        // A directory made by root in the system's own /dev would be seen by everybody.
        const fs::path parent = directory.to.parent_path();
        if (ours_.insert(parent).second) cover(parent);
        fs::create_directory(directory.to);
    }
    if (!held) {
        bind_mount(directory.from, directory.to);
    } else if (move_mount(held.get(), "", AT_FDCWD, directory.to.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
        fail(fmt::format("cannot mount {} on {}", directory.from.string(), directory.to.string()), errno);
    }
}

bool Placements::are_mounted() const {
    for (std::size_t i = 0; i < directories_.size(); ++i) {
        struct stat ours {};
        struct stat there {};
        const bool known = held_.empty() ? stat(directories_[i].from.c_str(), &ours) == 0
                                         : fstatat(held_[i].get(), "", &ours, AT_EMPTY_PATH) == 0;
        if (!known || stat(directories_[i].to.c_str(), &there) != 0 || ours.st_dev != there.st_dev ||
            ours.st_ino != there.st_ino) {
            return false;
        }
    }
    return true;
}

}  // namespace urnic::cli
