// The kernel sees what comes for UDP port 4791, too, and would answer "port unreachable".
#pragma once

#include <vector>

#include "os/unique_fd.h"

namespace urnic::dataplane {

/// Sockets that own UDP port 4791 of a network namespace and receive nothing. There are none where another
/// program has the port: the kernel then sends no "port unreachable" either.
class UdpPortSink {
  public:
    /// Opens no socket yet.
    UdpPortSink() = default;
    /// Of the caller's network namespace. `takes_segments`: frames that stand for several come as well, and
    /// are not cut apart to be dropped. Throws SetupError.
    [[nodiscard]] static UdpPortSink open(bool takes_segments);

  private:
    std::vector<UniqueFd> sockets_;
};

}  // namespace urnic::dataplane
