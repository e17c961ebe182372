#include "tests/interop/peer/link.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace urnic::interop {

namespace {

[[noreturn]] void fail(const std::string& what) {
    throw std::runtime_error(what + ": " + std::strerror(errno));
}

void without_delay(int fd) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Link Link::listen(int port) {
    const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
    const int on = 1;
    ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener, 1) != 0) {
        fail("listen");
    }
    const int fd = ::accept(listener, nullptr, nullptr);
    if (fd < 0) {
        fail("accept");
    }
    ::close(listener);
    without_delay(fd);
    return Link(fd);
}

Link Link::connect(const std::string& host, int port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
        throw std::runtime_error("no such host: " + host);
    }
    const int fd = ::socket(found->ai_family, SOCK_STREAM, 0);
    const int result = ::connect(fd, found->ai_addr, found->ai_addrlen);
    ::freeaddrinfo(found);
    if (result != 0) {
        fail("connect to " + host);
    }
    without_delay(fd);
    return Link(fd);
}

Link::Link(Link&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Link::~Link() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

void Link::put(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count <= 0) {
            fail("the other side is gone");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

void Link::get(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
        if (count == 0) {
            throw std::runtime_error("the other side has ended early");
        }
        if (count < 0) {
            fail("the other side is gone");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
}

void Link::meet(std::string_view where) {
    std::array<char, 32> mine{};
    std::copy_n(where.begin(), std::min(where.size(), mine.size() - 1), mine.begin());
    const auto theirs = exchange(mine);
    if (theirs != mine) {
        throw std::runtime_error("the other side is at \"" + std::string(theirs.data()) +
                                 "\", this one at \"" + std::string(mine.data()) + "\"");
    }
}

}  // namespace urnic::interop
