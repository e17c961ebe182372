#include "verbs_provider/shim/umad.h"

#include <fcntl.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "abi/umad.h"
#include "verbs_provider/shim/mapped_path.h"

namespace urnic::shim {
namespace {

/// What is open. close() is not ours: an entry whose socket is another file now is free.
struct Entry {
    std::atomic<int> fd{-1};
    std::uint64_t inode = 0;
    std::uint64_t token = 0;
};
constexpr int kMaxEntries = 64;
constinit Entry entries[kMaxEntries] = {};
constinit std::atomic<int> num_entries{0};  // ever used
constinit std::atomic_flag adding = ATOMIC_FLAG_INIT;

std::uint64_t inode_of(int fd) {
    struct stat about {};
    const int saved = errno;
    const bool known = syscall(SYS_fstat, fd, &about) == 0 && S_ISSOCK(about.st_mode);
    errno = saved;
    return known ? about.st_ino : 0;
}

Entry* find(int fd) {
    const int count = num_entries.load(std::memory_order_acquire);
    for (int i = 0; i < count; ++i) {
        if (entries[i].fd.load(std::memory_order_acquire) == fd && fd >= 0) {
            return entries[i].inode == inode_of(fd) ? &entries[i] : nullptr;
        }
    }
    return nullptr;
}

bool add(int fd, std::uint64_t token) {
    while (adding.test_and_set(std::memory_order_acquire)) {
    }
    int place = 0;
    while (place < kMaxEntries) {
        const int old = entries[place].fd.load(std::memory_order_relaxed);
        if (old < 0 || old == fd || entries[place].inode != inode_of(old)) break;
        ++place;
    }
    if (place < kMaxEntries) {
        Entry& entry = entries[place];
        entry.fd.store(-1, std::memory_order_release);
        entry.inode = inode_of(fd);
        entry.token = token;
        entry.fd.store(fd, std::memory_order_release);
        if (num_entries.load(std::memory_order_relaxed) <= place) {
            num_entries.store(place + 1, std::memory_order_release);
        }
    }
    adding.clear(std::memory_order_release);
    return place < kMaxEntries;
}

/// A daemon that says nothing for so long counts as dead, as for the provider.
constexpr time_t kPatienceSeconds = 60;

/// How long connect(), send() and recv() wait; 0: without end.
void set_patience(int fd, time_t seconds) {
    const struct timeval limit { seconds, 0 };
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/// A signal of the program's does not end the wait.
ssize_t receive(int fd, void* buffer, std::size_t size) {
    ssize_t length = 0;
    do {
        length = recv(fd, buffer, size, 0);
    } while (length < 0 && errno == EINTR);
    return length;
}

/// A connection to a socket of the daemon, and what it says first. -1 and errno.
int connect_to(const char* path, std::uint64_t& token) {
    struct sockaddr_un address {};
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    set_patience(fd, kPatienceSeconds);
    abi::UmadHello hello{};
    int error = 0;
    if (connect(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) != 0) {
        error = errno;
    } else if (receive(fd, &hello, sizeof(hello)) != static_cast<ssize_t>(sizeof(hello)) ||
               hello.magic != abi::kUmadMagic) {
        error = ENODEV;
    } else {
        error = hello.error;
    }
    if (error != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    token = hello.token;
    return fd;
}

/// One request to the control socket. 0 or errno.
int call(std::uint64_t token, abi::UmadCommand command, void* argument, std::size_t size) {
    const MappedPath path(abi::kUmadControlSocket);
    std::uint64_t ignored = 0;
    const int fd = connect_to(path.get(), ignored);
    if (fd < 0) return errno;
    abi::UmadCall request{abi::kUmadMagic, command, token, {}};
    if (size != 0) memcpy(request.argument, argument, size);
    abi::UmadReply reply{};
    int error = ENODEV;
    if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(request)) &&
        receive(fd, &reply, sizeof(reply)) == static_cast<ssize_t>(sizeof(reply))) {
        error = reply.error;
    }
    close(fd);
    if (error == 0 && size != 0) memcpy(argument, reply.argument, size);
    return error;
}

}  // namespace

int open_umad(const char* path, int flags) {
    if (errno != ENXIO || !active()) return -1;
    std::uint64_t token = 0;
    const int fd = connect_to(path, token);
    if (fd < 0) return -1;
    set_patience(fd, 0);  // read() waits for what comes
    const int size = 4 * static_cast<int>(abi::kMaxUmadBytes);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    if ((flags & O_CLOEXEC) == 0) (void)fcntl(fd, F_SETFD, 0);
    if ((flags & O_NONBLOCK) != 0) (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    if (!add(fd, token)) {
        close(fd);
        errno = EMFILE;
        return -1;
    }
    return fd;
}

bool is_umad(int fd) { return num_entries.load(std::memory_order_acquire) != 0 && find(fd) != nullptr; }

ssize_t read_umad(int fd, void* buffer, std::size_t size) {
    const ssize_t length = recv(fd, buffer, size, MSG_PEEK | MSG_TRUNC);
    if (length < 0) {
        if (errno == ECONNRESET) errno = ENODEV;
        return -1;
    }
    if (length == 0) {
        errno = ENODEV;
        return -1;
    }
    if (static_cast<std::size_t>(length) > size) {
        errno = ENOSPC;
        return -1;
    }
    return recv(fd, buffer, size, 0);
}

ssize_t write_umad(int fd, const void* buffer, std::size_t size) {
    // An empty datagram would be the device's end.
    if (size < abi::kUmadHeaderBytes) {
        errno = EINVAL;
        return -1;
    }
    if (size > abi::kUmadHeaderBytes + abi::kMaxUmadBytes) {
        errno = EMSGSIZE;
        return -1;
    }
    const ssize_t length = send(fd, buffer, size, MSG_NOSIGNAL);
    if (length < 0 && (errno == EPIPE || errno == ECONNRESET)) errno = ENODEV;
    return length;
}

int ioctl_umad(int fd, unsigned long request, void* argument) {
    const Entry* entry = find(fd);
    if (entry == nullptr) {
        errno = EBADF;
        return -1;
    }
    int error = ENOTTY;
    switch (request) {
        case IB_USER_MAD_REGISTER_AGENT:
            error =
                call(entry->token, abi::UmadCommand::kRegister, argument, sizeof(struct ib_user_mad_reg_req));
            break;
        case IB_USER_MAD_REGISTER_AGENT2:
            error = call(entry->token, abi::UmadCommand::kRegister2, argument,
                         sizeof(struct ib_user_mad_reg_req2));
            break;
        case IB_USER_MAD_UNREGISTER_AGENT:
            error = call(entry->token, abi::UmadCommand::kUnregister, argument, sizeof(std::uint32_t));
            break;
        case IB_USER_MAD_ENABLE_PKEY:
            error = call(entry->token, abi::UmadCommand::kEnablePkey, nullptr, 0);
            break;
        default:
            break;
    }
    if (error == 0) return 0;
    errno = error;
    return -1;
}

}  // namespace urnic::shim
