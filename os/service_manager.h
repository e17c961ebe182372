// What started the daemon as a service and wants to hear from it: datagrams to $NOTIFY_SOCKET, as
// sd_notify(3) describes them. The protocol is stable and small; libsystemd would bring five more libraries
// into a process that is to have little in it.
#pragma once

#include <string_view>

#include "base/time.h"
#include "os/unique_fd.h"

namespace urnic {

class ServiceManager {
  public:
    /// Takes the socket and the time from the environment. Nobody wants to hear anything where there is no
    /// socket. Throws SetupError: there is one that cannot be reached.
    static ServiceManager from_environment();
    ServiceManager() = default;

    /// "READY=1", "WATCHDOG=1", "STOPPING=1". One that does not arrive is lost.
    void tell(std::string_view state) const;
    /// It ends a service from which it hears no WATCHDOG=1 for so long; 0: it does not.
    [[nodiscard]] TimeNs watchdog_ns() const { return watchdog_ns_; }

  private:
    UniqueFd socket_;
    TimeNs watchdog_ns_ = 0;
};

}  // namespace urnic
