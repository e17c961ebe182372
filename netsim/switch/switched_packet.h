// What a switch knows of a packet, and whom it tells what becomes of it.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace urnic::netsim {

using PortIndex = std::uint16_t;
inline constexpr std::uint32_t kMaxPorts = 1U << 15U;

inline constexpr std::uint32_t kPriorities = 8;  // IEEE 802.1Q: 7 is the highest

/// A packet on its way through a switch. It belongs to the switch from receive() to transmit() or drop(), and
/// to the caller otherwise, who may derive from it what the packet is in truth.
struct SwitchedPacket {
    std::uint32_t bytes = 0;  // on the wire, and in the buffers
    std::uint8_t priority = 0;
    bool ecn_capable = false;
    bool marked = false;  // CE: set by the switch

    // The switch's own, while it has the packet.
    SwitchedPacket* next = nullptr;
    PortIndex ingress = 0;
    bool in_headroom = false;
};

class SwitchOutbox {
  public:
    virtual ~SwitchOutbox() = default;
    /// The packet leaves by `port`; its last bit is on the wire at `done`.
    virtual void transmit(PortIndex port, SwitchedPacket& packet, TimeNs done) = 0;
    /// There was no room, or the watchdog threw it away.
    virtual void drop(SwitchedPacket& packet) = 0;
    /// The neighbour at `port` is to stop (IEEE 802.1Qbb) for so many quanta of 512 bit times; 0: to resume.
    virtual void pause(PortIndex port, std::uint8_t priority, std::uint16_t quanta) = 0;
};

}  // namespace urnic::netsim
