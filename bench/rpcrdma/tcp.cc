// What a user would take instead: the same messages over TCP on the loopback, one connection, with a length
// in front (record marking, RFC 5531, section 11). All that has arrived is read at once, and answered by one
// send.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "bench/rpcrdma/load.h"

namespace urnic::bench {
namespace {

using TcpClock = std::chrono::steady_clock;

constexpr std::size_t kCallOctets = 44 + kSmallOctets;
constexpr std::size_t kReplyOctets = 28 + kSmallOctets;
constexpr std::size_t kBufferOctets = 4U << 20U;

void set_no_delay(int socket) {
    const int on = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/// Messages with their length and procedure in front.
class Messages {
  public:
    explicit Messages(int socket) : socket_(socket), input_(kBufferOctets) { output_.reserve(kBufferOctets); }

    void add(std::uint32_t procedure, std::size_t octets) {
        const std::array<std::uint32_t, 2> head{static_cast<std::uint32_t>(octets), procedure};
        const std::size_t at = output_.size();
        output_.resize(at + sizeof(head) + octets);
        std::memcpy(output_.data() + at, head.data(), sizeof(head));
    }
    void flush() {
        for (std::size_t at = 0; at < output_.size();) {
            const ssize_t put = send(socket_, output_.data() + at, output_.size() - at, MSG_NOSIGNAL);
            if (put <= 0) give_up_on("send");
            at += static_cast<std::size_t>(put);
        }
        output_.clear();
    }
    /// Reads, and calls `each` with the procedure of every whole message. false: the peer has left.
    template <class Each>
    [[nodiscard]] bool take(const Each& each) {
        const ssize_t got = recv(socket_, input_.data() + end_, input_.size() - end_, 0);
        if (got <= 0) return false;
        end_ += static_cast<std::size_t>(got);
        std::size_t at = 0;
        for (std::array<std::uint32_t, 2> head; end_ - at >= sizeof(head);) {
            std::memcpy(head.data(), input_.data() + at, sizeof(head));
            if (end_ - at < sizeof(head) + head[0]) break;
            at += sizeof(head) + head[0];
            each(head[1]);
        }
        std::memmove(input_.data(), input_.data() + at, end_ - at);
        end_ -= at;
        return true;
    }

  private:
    int socket_;
    std::vector<std::uint8_t> input_;
    std::size_t end_ = 0;
    std::vector<std::uint8_t> output_;
};

void serve_connection(int socket) {
    Messages messages(socket);
    const auto answer_one = [&](std::uint32_t procedure) {
        const bool is_get = procedure == static_cast<std::uint32_t>(Procedure::kGet);
        messages.add(procedure, is_get ? kBulkOctets : kReplyOctets);
    };
    while (messages.take(answer_one)) {
        messages.flush();
    }
}

}  // namespace

void serve_tcp(const Tell& tell) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
        give_up_on("listen");
    }
    tell(ntohs(address.sin_port));
    for (;;) {
        const int connection = accept(listener, nullptr, nullptr);
        if (connection < 0) give_up_on("accept");
        set_no_delay(connection);
        serve_connection(connection);
        (void)close(connection);
    }
}

Done call_tcp(std::uint16_t port, const Load& load) {
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
        give_up_on("connect");
    set_no_delay(connection);
    Messages messages(connection);
    const auto procedure = static_cast<std::uint32_t>(load.procedure);
    const std::size_t octets = load.procedure == Procedure::kPut ? kBulkOctets : kCallOctets;
    for (std::uint32_t i = 0; i < load.outstanding; ++i) {
        messages.add(procedure, octets);
    }
    const TcpClock::time_point begin = TcpClock::now();
    const TcpClock::time_point end =
        begin + std::chrono::duration_cast<TcpClock::duration>(std::chrono::duration<double>(load.seconds));
    Done done;
    do {
        messages.flush();
        const bool is_there = messages.take([&](std::uint32_t) {
            ++done.calls;
            messages.add(procedure, octets);
        });
        if (!is_there) give_up_on("recv");
    } while (TcpClock::now() < end);
    done.seconds = std::chrono::duration<double>(TcpClock::now() - begin).count();
    (void)close(connection);
    return done;
}

}  // namespace urnic::bench
