// What an RNIC hears of an interface beside its port: a packet socket that hears one kind of frame and
// nothing else.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/handoff/frame_inbox.h"
#include "os/net_namespace.h"
#include "os/unique_fd.h"

namespace urnic::daemon {

class FrameSocket {
  public:
    enum class Kind : std::uint8_t {
        kNeighbours,  ///< ARP and neighbour discovery, where an XDP program leaves them to the kernel
        kQueries,     ///< of IGMP and MLD; the socket hears nothing before hear(true)
    };
    /// The interface may be away for a while: it is found by its name. Throws SetupError.
    FrameSocket(const NetNamespace& where, std::string interface, Kind kind);

    /// A socket that does not hear costs the kernel nothing for each packet.
    void hear(bool does) const;

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
