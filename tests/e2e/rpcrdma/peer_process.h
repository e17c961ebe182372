// Another process: this executable again, as a server or as a client.
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace urnic::e2e {

/// What main() does instead of the tests when it is asked for by its first argument; false: it is not.
[[nodiscard]] bool run_as_peer(int argc, char** argv);

/// Octets of the argument and of the result of a client's calls.
inline constexpr std::size_t kHeldOctets = 1U << 20U;

class PeerProcess {
  public:
    /// An echo server on a port; it holds kHold for ever.
    static PeerProcess server(std::uint16_t port, const std::string& versions);
    /// A client with calls of kHold outstanding, their memory in the server's reach.
    static PeerProcess client(std::uint16_t port, int calls);
    PeerProcess(PeerProcess&& other) noexcept;
    PeerProcess& operator=(PeerProcess&&) = delete;
    PeerProcess(const PeerProcess&) = delete;
    PeerProcess& operator=(const PeerProcess&) = delete;
    ~PeerProcess() { kill(); }
    /// kill -9, and waits for its end.
    void kill();
    /// The next line that it printed.
    [[nodiscard]] std::string line() const;

  private:
    PeerProcess(const std::string& role, const std::string& first, const std::string& second);
    pid_t pid_ = -1;
    int output_ = -1;
};

}  // namespace urnic::e2e
