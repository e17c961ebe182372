// A process that connects a QP over its standard input and output, transfers without end, and is killed.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <cstdint>
#include <random>
#include <string>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {

/// What two sides tell each other.
struct Identity {
    std::uint32_t qp_num;
    std::uint32_t rkey;
    std::uint64_t addr;
    ibv_gid gid;
};
[[nodiscard]] Identity identity_of(const Endpoint& endpoint);

/// Takes the endpoint's QP to RTS. A dead peer is given up after some 70 ms.
void connect_to(const Endpoint& endpoint, const Identity& peer);

/// WRITEs of this length go both ways, as many at a time as kDepth.
inline constexpr std::uint32_t kTransferBytes = 65536;
inline constexpr std::uint32_t kDepth = 8;
/// Posts one; the caller has room in the send queue. 0 or errno.
[[nodiscard]] int post_transfer(const Endpoint& endpoint, const Identity& peer, std::uint64_t wr_id);

/// main() of the victim: never returns but on an error. `sends`: once it is told to, it SENDs kTransferBytes
/// and is killed by its own hand at once.
int run_victim(const std::string& device, bool sends);

class Victim {
  public:
    /// Starts this executable again as a victim on `device` and connects it with `endpoint`.
    Victim(const std::string& device, const Endpoint& endpoint, bool sends = false);
    ~Victim() { kill(); }
    Victim(const Victim&) = delete;
    Victim& operator=(const Victim&) = delete;
    /// kill -9, and waits for its end.
    void kill();
    /// Tells a victim that sends to send, and waits for its end.
    void send_and_die();
    [[nodiscard]] const Identity& identity() const { return identity_; }

  private:
    pid_t pid_ = -1;
    int input_ = -1;
    Identity identity_{};
};

}  // namespace urnic::e2e
