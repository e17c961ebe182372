#include "daemon/run_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "os/rollback.h"

namespace urnic::daemon {

namespace {

constexpr std::size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

constexpr pid_t kUnknown = 0;

/// Who accepts connections there; nullopt: nobody. kUnknown: a process of another PID namespace, or one that
/// is too busy to be asked.
std::optional<pid_t> server_at(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
        return std::nullopt;
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return errno == EAGAIN ? std::optional(kUnknown) : std::nullopt;
    }
    ucred listener{};
    socklen_t length = sizeof listener;
    return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &listener, &length) == 0 ? listener.pid
                                                                                        : kUnknown;
}

/// Returns whether somebody holds the lock that a daemon leaves there.
bool is_locked(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    return file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
}

StartError is_taken(const std::string& dir, pid_t by) {
    if (by == kUnknown) {
        return StartError(fmt::format(
            "another urnicd serves {}: end it first (sudo systemctl stop urnicd), or set another run_dir",
            dir));
    }
    return StartError(fmt::format(
        "another urnicd serves {} (process {}): end it first (sudo systemctl stop urnicd, or sudo "
        "kill {}), or set another run_dir",
        dir, by, by));
}

/// What to do where files cannot be made; `otherwise`: where the file system is none to be only read.
std::string hint(int error, const std::string& dir, const std::string& otherwise) {
    if (error != EROFS) {
        return otherwise;
    }
    const std::string parent = std::filesystem::path(dir).parent_path().string();
    return fmt::format(
        "Set run_dir to a directory that can be written to, or mount something there that can (mount -t "
        "tmpfs tmpfs {0}; of a container: --tmpfs {0})",
        parent);
}

}  // namespace

RunDir::RunDir(std::string dir, unsigned mode, const std::optional<Account>& owner) : dir_(std::move(dir)) {
    if (socket_path().size() > kMaxSocketPath) {
        throw StartError(
            fmt::format("run directory {}: its path is too long for a socket in it ({} characters at most): "
                        "set another run_dir",
                        dir_, kMaxSocketPath - std::strlen("/control.sock")));
    }
    make(mode);
    Rollback unmake([this] {
        if (made_) {
            ::rmdir(dir_.c_str());
        }
    });
    check_owner(owner);
    if (owner) {
        give_to(*owner);
    }
    const ActingAs acting(owner ? &*owner : nullptr);
    lock();
    // Left by a daemon that was killed.
    if (::unlink(socket_path().c_str()) != 0 && errno != ENOENT) {
        throw StartError(
            fmt::format("cannot remove the stale socket {}: {}. Remove it (sudo rm -r {}), or set another "
                        "run_dir",
                        socket_path(), std::strerror(errno), socket_path()));
    }
    unmake.keep();
}

void RunDir::make(unsigned mode) {
    if (::mkdir(dir_.c_str(), mode) == 0) {
        made_ = true;
        // Whatever the caller's umask: other users' programs must be able to look in.
        (void)::chmod(dir_.c_str(), mode);
    } else if (errno != EEXIST) {
        const int error = errno;
        throw StartError(
            fmt::format("cannot make the run directory {}: {}. {}", dir_, std::strerror(error),
                        hint(error, dir_,
                             fmt::format("Make it for this user (sudo install -d -o $USER {}), or set "
                                         "another run_dir",
                                         dir_))));
    }
}

/// Who can put files into the directory can have the daemon write elsewhere, and listen in its place.
void RunDir::check_owner(const std::optional<Account>& owner) const {
    struct stat status {};
    if (::lstat(dir_.c_str(), &status) != 0) {
        throw StartError(fmt::format("cannot look at the run directory {}: {}", dir_, std::strerror(errno)));
    }
    if (S_ISLNK(status.st_mode)) {
        throw StartError(
            fmt::format("run directory {} is a link: set run_dir to what it leads to, or remove it", dir_));
    }
    if (!S_ISDIR(status.st_mode)) {
        throw StartError(
            fmt::format("run directory {} is no directory: remove it, or set another run_dir", dir_));
    }
    const uid_t wanted = owner ? owner->uid : ::geteuid();
    if (status.st_uid != 0 && status.st_uid != wanted) {
        throw StartError(fmt::format(
            "run directory {} belongs to {}, who could have urnicd write elsewhere: give it to {} (sudo "
            "chown {} {}), or set another run_dir",
            dir_, user_name(status.st_uid), user_name(wanted), user_name(wanted), dir_));
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw StartError(
            fmt::format("run directory {} has mode {:04o}, so others may write to it: take that away "
                        "(chmod go-w {}), or set another run_dir",
                        dir_, status.st_mode & 07777U, dir_));
    }
}

/// A directory of root's that is not ours alone, such as /run, stays root's.
void RunDir::give_to(const Account& owner) {
    const UniqueFd directory(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!directory || ::fstat(directory.get(), &status) != 0) {
        throw StartError(fmt::format("cannot open the run directory {}: {}", dir_, std::strerror(errno)));
    }
    if (status.st_uid == owner.uid) {
        return;
    }
    if (!made_) {
        remove_what_root_left();
    }
    if (::fchown(directory.get(), owner.uid, owner.gid) != 0) {
        throw StartError(fmt::format("cannot give the run directory {} to {}: {}. Do so (sudo chown {} {})",
                                     dir_, owner.name, std::strerror(errno), owner.name, dir_));
    }
}

/// Nobody but root can have put it there: see check_owner().
void RunDir::remove_what_root_left() const {
    namespace fs = std::filesystem;
    const std::array ours{socket_path(), sysroot_path(), lock_path(), dpdk_path()};
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir_, error)) {
        if (std::find(ours.begin(), ours.end(), entry.path().string()) == ours.end()) {
            throw StartError(fmt::format(
                "run directory {} belongs to root and has something else in it ({}): set run_dir to a "
                "directory of its own",
                dir_, entry.path().filename().string()));
        }
    }
    const std::optional<pid_t> server = server_at(socket_path());
    if (server || is_locked(lock_path())) {
        throw is_taken(dir_, server.value_or(kUnknown));
    }
    for (const std::string& path : ours) {
        fs::remove_all(path, error);
    }
}

void RunDir::lock() {
    lock_ = UniqueFd(::open(lock_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_) {
        const int error = errno;
        throw StartError(fmt::format("cannot write to the run directory {}: {}. {}", dir_,
                                     std::strerror(error),
                                     hint(error, dir_, "Start urnicd as its owner, or set another run_dir")));
    }
    const bool is_ours = ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0;
    if (const std::optional<pid_t> server = server_at(socket_path()); server || !is_ours) {
        lock_.reset();
        throw is_taken(dir_, server.value_or(kUnknown));
    }
}

void RunDir::make_dpdk_dir(const std::optional<Account>& owner) const {
    const ActingAs acting(owner ? &*owner : nullptr);
    std::error_code error;
    // Left by a daemon that was killed.
    std::filesystem::remove_all(dpdk_path(), error);
    if (::mkdir(dpdk_path().c_str(), 0700) != 0 || ::mkdir((dpdk_path() + "/urnic").c_str(), 0700) != 0) {
        throw StartError(
            fmt::format("cannot make {}/urnic for telemetry: {}. Remove {} (sudo rm -r {}), or leave "
                        "'telemetry' out under "
                        "[daemon]",
                        dpdk_path(), std::strerror(errno), dpdk_path(), dpdk_path()));
    }
}

RunDir::~RunDir() {
    std::error_code error;
    std::filesystem::remove_all(dpdk_path(), error);
    ::unlink(socket_path().c_str());
    ::unlink(lock_path().c_str());
    if (made_) {
        ::rmdir(dir_.c_str());
    }
}

}  // namespace urnic::daemon
