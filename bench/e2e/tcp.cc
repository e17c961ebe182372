#include "bench/e2e/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "bench/e2e/processes.h"

namespace urnic::bench {

namespace {

constexpr const char* kPartTcp = "TCP over loopback";

struct Connection {
    int client = -1;
    int server = -1;
};

Connection connect_loopback() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener == -1 || bind(listener, plain, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, plain, &length) != 0) {
        fail(kPartTcp, "listen");
    }
    Connection connection;
    connection.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection.client == -1 || connect(connection.client, plain, length) != 0) {
        fail(kPartTcp, "connect");
    }
    connection.server = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection.server == -1) {
        fail(kPartTcp, "accept");
    }
    close(listener);
    for (const int fd : {connection.client, connection.server}) {
        const int on = 1;
        if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
            fail(kPartTcp, "TCP_NODELAY");
        }
    }
    return connection;
}

/// Returns whether it was not the end of the stream.
bool read_all(int fd, std::byte* to, std::size_t bytes) {
    while (bytes != 0) {
        const ssize_t got = read(fd, to, bytes);
        if (got == 0) {
            return false;
        }
        if (got < 0) {
            fail(kPartTcp, "read");
        }
        to += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

void write_all(int fd, const std::byte* from, std::size_t bytes) {
    while (bytes != 0) {
        const ssize_t put = send(fd, from, bytes, MSG_NOSIGNAL);
        if (put <= 0) {
            fail(kPartTcp, "write");
        }
        from += put;
        bytes -= static_cast<std::size_t>(put);
    }
}

}  // namespace

void tcp_latency(int cpu_a, int cpu_b, double seconds, Results& results) {
    const Connection connection = connect_loopback();
    const pid_t server = start_child(cpu_b, [&] {
        close(connection.client);
        std::array<std::byte, 8> message{};
        while (read_all(connection.server, message.data(), message.size())) {
            write_all(connection.server, message.data(), message.size());
        }
    });
    close(connection.server);
    pin_to(cpu_a);
    std::array<std::byte, 8> message{};
    const std::uint64_t begin = now_ns();
    const std::uint64_t end = deadline_after(seconds);
    for (std::uint64_t now = begin; now < end;) {
        write_all(connection.client, message.data(), message.size());
        if (!read_all(connection.client, message.data(), message.size())) {
            fail(kPartTcp, "the peer hung up");
        }
        const std::uint64_t after = now_ns();
        results.add_sample(after - now);
        results.messages += 2;
        now = after;
    }
    results.elapsed_ns = now_ns() - begin;
    close(connection.client);
    wait_for(server);
}

void tcp_bandwidth(int cpu_a, int cpu_b, double seconds, Results& results) {
    constexpr std::size_t kMessageBytes = 65536;
    const Connection connection = connect_loopback();
    const pid_t sender = start_child(cpu_b, [&] {
        close(connection.client);
        const std::vector<std::byte> message(kMessageBytes, std::byte{0x5a});
        for (const std::uint64_t end = deadline_after(seconds); now_ns() < end;) {
            write_all(connection.server, message.data(), message.size());
        }
    });
    close(connection.server);
    pin_to(cpu_a);
    std::vector<std::byte> message(kMessageBytes);
    const std::uint64_t begin = now_ns();
    while (read_all(connection.client, message.data(), message.size())) {
        ++results.messages;
        results.bytes += message.size();
    }
    results.elapsed_ns = now_ns() - begin;
    close(connection.client);
    wait_for(sender);
}

}  // namespace urnic::bench
