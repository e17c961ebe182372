#include "conform/port/tcp_agent.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "os/setup_error.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kMaxLine = 256U << 10U;

std::string tcp_reason() { return std::strerror(errno); }

std::int64_t milliseconds() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

/// Returns whether it became so before `deadline` (of milliseconds()).
bool becomes(int fd, short events, std::int64_t deadline) {
    for (;;) {
        const std::int64_t left = deadline - milliseconds();
        if (left <= 0) {
            return false;
        }
        pollfd ready{fd, events, 0};
        const int count = ::poll(&ready, 1, static_cast<int>(left));
        if (count > 0) {
            return true;
        }
        if (count < 0 && errno != EINTR) {
            return false;
        }
    }
}

/// An agent may take its time; a host that is down is noticed within 12 s.
void notice_loss(int fd) {
    const auto set = [fd](int level, int name, int value) {
        (void)::setsockopt(fd, level, name, &value, sizeof value);
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 4);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set(IPPROTO_TCP, TCP_KEEPCNT, 4);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 12'000);
}

struct Addresses {
    addrinfo* list = nullptr;
    Addresses() = default;
    Addresses(const Addresses&) = delete;
    Addresses& operator=(const Addresses&) = delete;
    ~Addresses() {
        if (list != nullptr) {
            ::freeaddrinfo(list);
        }
    }
};

}  // namespace

TcpAgent::TcpAgent(const std::string& host, const std::string& port, int patience_ms)
    : where_("agent at " + host + " port " + port), patience_ms_(patience_ms) {
    Addresses addresses;
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses.list); error != 0) {
        throw SetupError(where_ + ": " + ::gai_strerror(error));
    }
    std::string why = "no address";
    const std::int64_t deadline = milliseconds() + patience_ms;
    for (const addrinfo* entry = addresses.list; entry != nullptr && !socket_; entry = entry->ai_next) {
        UniqueFd fd(::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!fd) {
            why = tcp_reason();
            continue;
        }
        int error = ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
        if (error == EINPROGRESS) {
            socklen_t length = sizeof error;
            error = ETIMEDOUT;
            if (becomes(fd.get(), POLLOUT, deadline)) {
                (void)::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
            }
        }
        if (error != 0) {
            why = std::strerror(error);
            continue;
        }
        const int yes = 1;
        (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        notice_loss(fd.get());
        socket_ = std::move(fd);
    }
    if (!socket_) {
        throw SetupError(where_ + ": " + why +
                         "; start urnic-conform-agent beside the device, or name where it is with --agent");
    }
}

std::string TcpAgent::call(const std::string& line) {
    const std::int64_t deadline = milliseconds() + patience_ms_;
    const std::string text = line + "\n";
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t n = ::send(socket_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
        if (n > 0) {
            done += static_cast<std::size_t>(n);
        } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
            throw BenchFailed(where_ + " is gone: " + tcp_reason());
        } else if (!becomes(socket_.get(), POLLOUT, deadline)) {
            throw BenchFailed(where_ + " takes nothing any more");
        }
    }
    for (;;) {
        if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
            std::string answer = received_.substr(0, end);
            received_.erase(0, end + 1);
            return answer;
        }
        if (received_.size() > kMaxLine) {
            throw BenchFailed(where_ + " sends a line without an end: it is no urnic-conform-agent");
        }
        if (!becomes(socket_.get(), POLLIN, deadline)) {
            throw BenchFailed(where_ + " did not answer in time");
        }
        std::array<char, 65536> buffer{};
        const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (n == 0) {
            throw BenchFailed(where_ + " has closed the connection");
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            throw BenchFailed(where_ + " is gone: " + tcp_reason());
        }
        received_.append(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    }
}

}  // namespace urnic::conform
