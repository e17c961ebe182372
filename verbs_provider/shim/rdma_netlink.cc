#include "verbs_provider/shim/rdma_netlink.h"

#include <linux/netlink.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "abi/netlink.h"
#include "verbs_provider/shim/mapped_path.h"

namespace urnic::shim {
namespace {

constexpr char kControlSocket[] = "/control.sock";
/// A daemon that says nothing for so long counts as dead, as for the provider.
constexpr time_t kSilenceSeconds = 60;
/// More than the QPs of a daemon make.
constexpr off_t kMaxAnswerBytes = off_t{256} << 20U;

struct NetlinkSocket {
    std::atomic<bool> is_open{false};
    unsigned char* answer = nullptr;  // memory of mmap()
    std::size_t answer_bytes = 0;
    std::size_t position = 0;
};
constexpr int kMaxSockets = 16;
constinit NetlinkSocket sockets[kMaxSockets] = {};

void forget_answer(NetlinkSocket& of) {
    if (of.answer != nullptr) (void)munmap(of.answer, of.answer_bytes);
    of.answer = nullptr;
    of.answer_bytes = 0;
    of.position = 0;
}

/// By system call: it goes past whoever stands in front of close().
void close_fd(int fd) {
    const int saved = errno;
    (void)syscall(SYS_close, fd);
    errno = saved;
}

/// -1 and errno.
int connect_to_daemon() {
    struct sockaddr_un address {};
    address.sun_family = AF_UNIX;
    const char* directory = run_directory();
    const std::size_t length = strlen(directory);
    if (length + sizeof(kControlSocket) > sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, directory, length);
    memcpy(address.sun_path + length, kControlSocket, sizeof(kControlSocket));
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const struct timeval limit { kSilenceSeconds, 0 };
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) == 0) return fd;
    close_fd(fd);
    return -1;
}

/// The reply's file; -1 and errno.
int receive_file(int fd) {
    abi::EmptyReply reply{};
    struct iovec part {
        &reply, sizeof(reply)
    };
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    struct msghdr message {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    ssize_t length = 0;
    do {
        length = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (length < 0 && errno == EINTR);
    const struct cmsghdr* rights = CMSG_FIRSTHDR(&message);
    int file = -1;
    if (length > 0 && rights != nullptr && rights->cmsg_level == SOL_SOCKET &&
        rights->cmsg_type == SCM_RIGHTS) {
        memcpy(&file, CMSG_DATA(rights), sizeof(file));
    }
    if (length == static_cast<ssize_t>(sizeof(reply)) && reply.header.magic == abi::kControlMagic &&
        reply.header.error == 0 && file >= 0) {
        return file;
    }
    if (file >= 0) close_fd(file);
    errno =
        length == static_cast<ssize_t>(sizeof(reply)) && reply.header.error > 0 ? reply.header.error : EPROTO;
    return -1;
}

/// Copies the daemon's file, which it could cut off under a mapping. Returns whether it could.
bool copy_answer(NetlinkSocket& to, int file) {
    struct stat about {};
    if (syscall(SYS_fstat, file, &about) != 0) return false;
    if (about.st_size <= 0 || about.st_size > kMaxAnswerBytes) {
        errno = EPROTO;
        return false;
    }
    const auto bytes = static_cast<std::size_t>(about.st_size);
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return false;
    to.answer = static_cast<unsigned char*>(at);
    to.answer_bytes = bytes;
    std::size_t copied = 0;
    while (copied < bytes) {
        const ssize_t got = pread(file, to.answer + copied, bytes - copied, static_cast<off_t>(copied));
        if (got <= 0) break;
        copied += static_cast<std::size_t>(got);
    }
    if (copied == bytes) return true;
    forget_answer(to);
    errno = EPROTO;
    return false;
}

/// Bytes of the message at the socket's position; 0: there is none that is whole.
std::size_t next_message(const NetlinkSocket& of, std::size_t position) {
    struct nlmsghdr header {};
    if (of.answer_bytes - position < sizeof(header)) return 0;
    memcpy(&header, of.answer + position, sizeof(header));
    const std::size_t bytes = NLMSG_ALIGN(static_cast<std::size_t>(header.nlmsg_len));
    return header.nlmsg_len >= sizeof(header) && bytes <= of.answer_bytes - position ? bytes : 0;
}

}  // namespace

void* open_rdma_netlink() {
    for (NetlinkSocket& socket : sockets) {
        if (!socket.is_open.exchange(true, std::memory_order_acq_rel)) return &socket;
    }
    errno = EMFILE;
    return nullptr;
}

bool is_rdma_netlink(const void* socket) {
    const auto at = reinterpret_cast<std::uintptr_t>(socket);
    const auto begin = reinterpret_cast<std::uintptr_t>(&sockets[0]);
    return at >= begin && at < begin + sizeof(sockets);
}

void close_rdma_netlink(void* socket) {
    auto& of = *static_cast<NetlinkSocket*>(socket);
    forget_answer(of);
    of.is_open.store(false, std::memory_order_release);
}

std::uint32_t rdma_netlink_port(const void* /*socket*/) { return static_cast<std::uint32_t>(getpid()); }

ssize_t send_rdma_netlink(void* socket, const void* message, std::size_t size) {
    auto& of = *static_cast<NetlinkSocket*>(socket);
    forget_answer(of);
    abi::NetlinkRequest request{};
    if (size < sizeof(struct nlmsghdr) || size > sizeof(request.message)) {
        errno = size < sizeof(struct nlmsghdr) ? EINVAL : EMSGSIZE;
        return -1;
    }
    request.header = {abi::kControlMagic, abi::Op::kNetlink, 1, sizeof(request)};
    request.message_bytes = static_cast<std::uint32_t>(size);
    memcpy(request.message, message, size);
    // As the kernel knows who sent it.
    const std::uint32_t port = rdma_netlink_port(socket);
    memcpy(request.message + offsetof(struct nlmsghdr, nlmsg_pid), &port, sizeof(port));
    const int fd = connect_to_daemon();
    if (fd < 0) return -1;
    const int file =
        send(fd, &request, sizeof(request), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(request))
            ? receive_file(fd)
            : -1;
    close_fd(fd);
    if (file < 0) return -1;
    const bool is_copied = copy_answer(of, file);
    close_fd(file);
    return is_copied ? static_cast<ssize_t>(size) : -1;
}

ssize_t receive_rdma_netlink(void* socket, void* buffer, std::size_t size) {
    auto& of = *static_cast<NetlinkSocket*>(socket);
    std::size_t bytes = 0;
    std::size_t next = 0;
    while ((next = next_message(of, of.position + bytes)) != 0 && next <= size - bytes) bytes += next;
    if (bytes == 0) {
        errno = next == 0 ? EAGAIN : ENOSPC;
        return -1;
    }
    memcpy(buffer, of.answer + of.position, bytes);
    of.position += bytes;
    return static_cast<ssize_t>(bytes);
}

}  // namespace urnic::shim
