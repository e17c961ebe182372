// Whether a port carries packets: what the operator wants, and what is known of the link. Every source of
// such facts reports them here: `urnic port`, DPDK's events, the kernel's messages about interfaces.
#pragma once

#include <cstdint>

namespace urnic::daemon {

struct ControlState;
struct RnicState;

/// Each is true at the start.
enum class PortFact : std::uint8_t {
    kWanted,   // by the operator, as with `ip link set`
    kLink,     // there is a carrier, and the interface is up
    kPresent,  // there is a NIC or an interface at all
    kManaged,  // of InfiniBand: the port is active
};

/// For the control thread: `fact` is now `value`. When that changes whether the port carries packets
/// (PortState::is_up()), the workers stop or start its frames, the sysroot follows, and each context of the
/// RNIC gets IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE; a fact that was known already, or that changes
/// nothing, tells nobody. When it returns, no packet goes through a port that is down.
void report_port(ControlState& control, RnicState& device, PortFact fact, bool value);

}  // namespace urnic::daemon
