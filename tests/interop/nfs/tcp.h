// ONC RPC over TCP: records (RFC 5531, section 11). For MOUNT, which kernels ask for by TCP, and to judge the
// programs without RDMA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace urnic::nfs {

// A connection's descriptor.
class Socket {
  public:
    Socket() = default;
    explicit Socket(int fd) : fd_(fd) {}
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    Socket(Socket&& other) noexcept;
    Socket& operator=(Socket&& other) noexcept;
    ~Socket();

    // Throws std::system_error.
    static Socket connect(const std::string& address, std::uint16_t port);
    static Socket listen(const std::string& address, std::uint16_t port);

    [[nodiscard]] int fd() const { return fd_; }
    // Sends one record made of `parts`. Throws std::system_error.
    void send_record(std::span<const std::span<const std::byte>> parts) const;
    // Returns false when the connection has ended, or the record is longer than `most`.
    bool receive_record(std::vector<std::byte>& record, std::size_t most) const;
    // Ends what waits on it.
    void shut_down() const;

  private:
    bool receive_all(std::span<std::byte> room) const;
    int fd_ = -1;
};

// Serves connections, each with a thread of its own.
class TcpServer {
  public:
    // Reads a call and sends what is to be sent.
    using Serve = std::function<void(const Socket& connection, std::span<const std::byte> call)>;

    TcpServer(const std::string& address, std::uint16_t port, std::size_t max_record_octets, Serve serve);
    TcpServer(const TcpServer&) = delete;
    TcpServer& operator=(const TcpServer&) = delete;
    ~TcpServer();

  private:
    void accept_all();
    void serve_one(const Socket& connection) const;

    const std::size_t max_record_octets_;
    const Serve serve_;
    Socket listener_;
    std::mutex mutex_;
    bool is_stopping_ = false;
    std::vector<std::pair<Socket, std::thread>> connections_;
    std::thread acceptor_;
};

}  // namespace urnic::nfs
