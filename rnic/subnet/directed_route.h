// The way of directed route SMPs through a node (IBA 14.2.2).
#pragma once

#include <cstdint>

#include "rnic/subnet/smp.h"

namespace urnic::subnet {

/// An SMP that the node itself sends has come "in" through this port.
inline constexpr std::uint8_t kOwnPort = 0;

struct RouteStep {
    enum class Kind : std::uint8_t { kDiscard, kDeliver, kForward };
    Kind kind = Kind::kDiscard;
    std::uint8_t port = 0;  // kForward: that it leaves through
};

/// One step of an SMP of the directed class, which came through `ingress` or is this node's own: moves the
/// hop pointer and notes the way back. Discarded is what a peer may not send: hop counts and pointers beyond
/// the path, ports that the node does not have, an adapter in the middle of a path, and the parts of a route
/// by LID (DrSLID or DrDLID other than the permissive one), which no subnet manager here needs.
[[nodiscard]] RouteStep step_directed(MadRef smp, bool is_switch, std::uint8_t num_ports,
                                      std::uint8_t ingress);

}  // namespace urnic::subnet
