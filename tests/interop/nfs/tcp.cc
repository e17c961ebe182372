#include "tests/interop/nfs/tcp.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace urnic::nfs {

namespace {

constexpr std::uint32_t kLastFragment = 1U << 31U;
constexpr int kBacklog = 64;

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_in ipv4(const std::string& address, std::uint16_t port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1) {
        throw std::system_error(EINVAL, std::generic_category(), address);
    }
    return name;
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
}

Socket::~Socket() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

Socket Socket::connect(const std::string& address, std::uint16_t port) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in name = ipv4(address, port);
    if (made.fd_ < 0 || ::connect(made.fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        fail("connect to " + address + " port " + std::to_string(port));
    }
    const int on = 1;
    setsockopt(made.fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return made;
}

Socket Socket::listen(const std::string& address, std::uint16_t port) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in name = ipv4(address, port);
    const int on = 1;
    setsockopt(made.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (made.fd_ < 0 || bind(made.fd_, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 ||
        ::listen(made.fd_, kBacklog) != 0) {
        fail("listen on " + address + " port " + std::to_string(port));
    }
    return made;
}

void Socket::send_record(std::span<const std::span<const std::byte>> parts) const {
    std::size_t octets = 0;
    std::vector<iovec> vectors(1);
    for (const std::span<const std::byte> part : parts) {
        octets += part.size();
        vectors.push_back({.iov_base = const_cast<std::byte*>(part.data()), .iov_len = part.size()});
    }
    std::uint32_t mark = htonl(kLastFragment | static_cast<std::uint32_t>(octets));
    vectors[0] = {.iov_base = &mark, .iov_len = sizeof mark};
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = vectors.size();
    while (message.msg_iovlen != 0) {
        const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
        if (sent < 0) {
            fail("sendmsg");
        }
        std::size_t left = static_cast<std::size_t>(sent);
        while (message.msg_iovlen != 0 && left >= message.msg_iov->iov_len) {
            left -= message.msg_iov->iov_len;
            ++message.msg_iov;
            --message.msg_iovlen;
        }
        if (message.msg_iovlen != 0) {
            message.msg_iov->iov_base = static_cast<std::byte*>(message.msg_iov->iov_base) + left;
            message.msg_iov->iov_len -= left;
        }
    }
}

bool Socket::receive_all(std::span<std::byte> room) const {
    while (!room.empty()) {
        const ssize_t received = recv(fd_, room.data(), room.size(), 0);
        if (received <= 0) {
            return false;
        }
        room = room.subspan(static_cast<std::size_t>(received));
    }
    return true;
}

bool Socket::receive_record(std::vector<std::byte>& record, std::size_t most) const {
    record.clear();
    for (;;) {
        std::uint32_t mark = 0;
        if (!receive_all(std::as_writable_bytes(std::span(&mark, 1)))) {
            return false;
        }
        mark = ntohl(mark);
        const std::size_t octets = mark & ~kLastFragment;
        const std::size_t before = record.size();
        if (octets > most - before) {
            return false;
        }
        record.resize(before + octets);
        if (!receive_all(std::span(record).subspan(before))) {
            return false;
        }
        if ((mark & kLastFragment) != 0) {
            return true;
        }
    }
}

void Socket::shut_down() const { shutdown(fd_, SHUT_RDWR); }

TcpServer::TcpServer(const std::string& address, std::uint16_t port, std::size_t max_record_octets,
                     Serve serve)
    : max_record_octets_(max_record_octets),
      serve_(std::move(serve)),
      listener_(Socket::listen(address, port)) {
    acceptor_ = std::thread([this] { accept_all(); });
}

TcpServer::~TcpServer() {
    {
        const std::scoped_lock lock(mutex_);
        is_stopping_ = true;
        for (const auto& [connection, thread] : connections_) {
            connection.shut_down();
        }
    }
    listener_.shut_down();
    acceptor_.join();
    for (auto& [connection, thread] : connections_) {
        thread.join();
    }
}

void TcpServer::accept_all() {
    for (;;) {
        Socket connection(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
        const std::scoped_lock lock(mutex_);
        if (connection.fd() < 0 || is_stopping_) {
            return;
        }
        connections_.emplace_back(std::move(connection), std::thread());
        // The vector moves sockets, not descriptors.
        connections_.back().second =
            std::thread([this, fd = dup(connections_.back().first.fd())] { serve_one(Socket(fd)); });
    }
}

void TcpServer::serve_one(const Socket& connection) const {
    std::vector<std::byte> call;
    try {
        while (connection.receive_record(call, max_record_octets_)) {
            serve_(connection, call);
        }
    } catch (const std::system_error&) {
        // The other side has gone.
    }
    connection.shut_down();
}

}  // namespace urnic::nfs
