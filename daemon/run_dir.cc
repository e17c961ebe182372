#include "daemon/run_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace urnic::daemon {

namespace {

constexpr std::size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

/// True when somebody accepts connections there.
bool is_served(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    return socket &&
           (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
            errno == EAGAIN);
}

std::string name_of(uid_t user) {
    const passwd* entry = ::getpwuid(user);
    return entry != nullptr ? entry->pw_name : std::to_string(user);
}

/// Who can put files into the directory can have the daemon write elsewhere, and listen in its place.
void check_owner(const std::string& dir) {
    struct stat status {};
    if (::lstat(dir.c_str(), &status) != 0) {
        throw StartError(fmt::format("cannot look at the run directory {}: {}", dir, std::strerror(errno)));
    }
    if (S_ISLNK(status.st_mode)) {
        throw StartError(
            fmt::format("run directory {} is a link: set run_dir to what it leads to, or remove it", dir));
    }
    if (!S_ISDIR(status.st_mode)) {
        throw StartError(
            fmt::format("run directory {} is no directory: remove it, or set another run_dir", dir));
    }
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
        throw StartError(fmt::format(
            "run directory {} belongs to {}, who could have urnicd write elsewhere: give it to {} (sudo "
            "chown {} {}), or set another run_dir",
            dir, name_of(status.st_uid), name_of(::geteuid()), name_of(::geteuid()), dir));
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        throw StartError(
            fmt::format("run directory {} has mode {:04o}, so others may write to it: take that away "
                        "(chmod go-w {}), or set another run_dir",
                        dir, status.st_mode & 07777U, dir));
    }
}

}  // namespace

RunDir::RunDir(std::string dir, unsigned mode) : dir_(std::move(dir)) {
    if (socket_path().size() > kMaxSocketPath) {
        throw StartError(
            fmt::format("run directory {}: its path is too long for a socket in it ({} characters at most): "
                        "set another run_dir",
                        dir_, kMaxSocketPath - std::strlen("/control.sock")));
    }
    if (::mkdir(dir_.c_str(), mode) == 0) {
        made_ = true;
        // Whatever the caller's umask: other users' programs must be able to look in.
        (void)::chmod(dir_.c_str(), mode);
    } else if (errno != EEXIST) {
        throw StartError(
            fmt::format("cannot make the run directory {}: {}. Make it for this user (sudo install -d "
                        "-o $USER {}), or set another run_dir",
                        dir_, std::strerror(errno), dir_));
    }
    check_owner(dir_);
    lock_ = UniqueFd(::open(lock_path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock_) {
        const int error = errno;
        throw StartError(
            fmt::format("cannot write to the run directory {}: {}. Start urnicd as its owner, or set "
                        "another run_dir",
                        dir_, std::strerror(error)));
    }
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 || is_served(socket_path())) {
        lock_.reset();
        throw StartError(fmt::format("another urnicd serves {}: end it first, or set another run_dir", dir_));
    }
    // Left by a daemon that was killed.
    if (::unlink(socket_path().c_str()) != 0 && errno != ENOENT) {
        throw StartError(
            fmt::format("cannot remove the stale socket {}: {}. Remove it (sudo rm -r {}), or set another "
                        "run_dir",
                        socket_path(), std::strerror(errno), socket_path()));
    }
}

RunDir::~RunDir() {
    ::unlink(socket_path().c_str());
    ::unlink(lock_path().c_str());
    if (made_) {
        ::rmdir(dir_.c_str());
    }
}

}  // namespace urnic::daemon
