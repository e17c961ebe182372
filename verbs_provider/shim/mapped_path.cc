#include "verbs_provider/shim/mapped_path.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace urnic::shim {
namespace {

constexpr char kSysroot[] = "/sysroot";
constexpr std::size_t kSysrootLength = sizeof(kSysroot) - 1;

enum class State : int { kUnread, kInactive, kActive };
constinit std::atomic<State> state{State::kUnread};
constinit char run_dir_path[PATH_MAX] = {};
constinit char sysroot[PATH_MAX] = {};
constinit std::size_t sysroot_length = 0;

/// The trees that the daemon serves. `whole_component`: the prefix must end where a name ends
/// (/sys/class/infiniband also stands for infiniband_verbs, infiniband_mad and the like).
struct Tree {
    const char* prefix;
    bool whole_component;
};
constexpr Tree kTrees[] = {
    {"/sys/class/infiniband", false},
    {"/sys/class/misc/rdma_cm", true},
    {"/dev/infiniband", true},
};

/// What follows the separator at `path`: past "/", "//" and "/./".
const char* skip_separator(const char* path) {
    while (*path == '/') {
        ++path;
        while (path[0] == '.' && path[1] == '/') path += 2;
    }
    return path;
}

/// The rest of `path` after `prefix`, or null when it does not begin with it.
const char* match(const char* path, const char* prefix) {
    while (*prefix != '\0') {
        if (*prefix == '/') {
            if (*path != '/') return nullptr;
            path = skip_separator(path);
            ++prefix;
            continue;
        }
        if (*path++ != *prefix++) return nullptr;
    }
    return path;
}

/// By system call: a hook must not run into another hook, and must leave errno alone.
bool exists(const char* path) {
    const int saved = errno;
    const bool found = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    errno = saved;
    return found;
}

}  // namespace

void load_environment() {
    if (state.load(std::memory_order_acquire) != State::kUnread) return;
    const char* run_dir = secure_getenv("URNIC_RUN_DIR");
    const std::size_t length = run_dir == nullptr ? 0 : strlen(run_dir);
    State found = State::kInactive;
    if (length != 0 && run_dir[0] == '/' && length + sizeof(kSysroot) <= sizeof(sysroot) &&
        getuid() == geteuid()) {
        memcpy(run_dir_path, run_dir, length + 1);
        memcpy(sysroot, run_dir, length);  // NOLINT(bugprone-not-null-terminated-result): more follows
        memcpy(sysroot + length, kSysroot, sizeof(kSysroot));
        sysroot_length = length + kSysrootLength;
        found = State::kActive;
    }
    state.store(found, std::memory_order_release);
}

bool active() {
    load_environment();
    return state.load(std::memory_order_acquire) == State::kActive;
}

const char* run_directory() { return run_dir_path; }

// The buffer is filled only where a path is mapped: clearing it would cost every open() 4 KB.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
MappedPath::MappedPath(const char* path) : path_(path) {
    // Nearly every path of a program ends here.
    if (path == nullptr || path[0] != '/' || !active()) return;
    for (const Tree& tree : kTrees) {
        const char* rest = match(path, tree.prefix);
        if (rest == nullptr || (tree.whole_component && *rest != '\0' && *rest != '/')) continue;
        const std::size_t prefix_length = strlen(tree.prefix);
        const std::size_t rest_length = strlen(rest);
        if (sysroot_length + prefix_length + rest_length + 1 > sizeof(buffer_)) return;
        memcpy(buffer_, sysroot, sysroot_length);
        memcpy(buffer_ + sysroot_length, tree.prefix, prefix_length);
        memcpy(buffer_ + sysroot_length + prefix_length, rest, rest_length + 1);
        if (exists(buffer_)) path_ = buffer_;
        return;
    }
}

}  // namespace urnic::shim
