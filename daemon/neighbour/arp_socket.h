// ARP and neighbour discovery of an interface whose XDP program leaves them to the kernel: a packet socket
// that hears nothing else.
#pragma once

#include <string>

#include "dataplane/handoff/frame_inbox.h"
#include "os/net_namespace.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

class ArpSocket {
  public:
    /// The interface may be away for a while: it is found by its name. Throws SetupError.
    ArpSocket(const NetNamespace& where, std::string interface);

    /// Readable when some interface of the namespace has heard something.
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// The next frame; false: there is none. One of another interface, or too long, comes with length 0.
    [[nodiscard]] bool receive(dataplane::FrameInbox::Frame& frame) const;

  private:
    [[nodiscard]] int interface_index() const;

    std::string interface_;
    UniqueFd fd_;
};

}  // namespace urnic::daemon
