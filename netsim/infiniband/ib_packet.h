// What a link, a port and a switch of InfiniBand know of a packet.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace urnic::netsim {

/// 0: a switch's management port; the others are its links (IBA 18.2.1).
using IbPortNumber = std::uint8_t;
/// In a forwarding table: to nobody (IBA 14.2.5.10).
inline constexpr IbPortNumber kNoIbPort = 255;
inline constexpr std::uint32_t kMaxIbPorts = 254;

using Lid = std::uint16_t;
inline constexpr Lid kMulticastLids = 0xc000;  // the first; below it, and not 0, LIDs are unicast (IBA 4.1.3)
inline constexpr Lid kPermissiveLid = 0xffff;

inline constexpr std::uint32_t kVls = 16;
inline constexpr std::uint32_t kDataVls = 15;
inline constexpr std::uint8_t kManagementVl = 15;
inline constexpr std::uint32_t kSls = 16;

/// A packet is never longer than its MTU and this: headers, ICRC and VCRC (IBA 7.7.8).
inline constexpr std::uint32_t kMostIbHeaderBytes = 126;
inline constexpr std::uint32_t kVcrcOctets = 2;
/// No path has more links (IBA 14.2.1.2: what a directed route can say). A packet that passed so many
/// switches goes round in a loop.
inline constexpr std::uint8_t kMostHops = 63;

/// A packet on its way through ports and switches. It belongs to the one that it was given to until it comes
/// out of it again. The caller may derive from it what the packet is in truth.
struct IbPacket {
    std::uint32_t bytes = 0;  // from the LRH to the VCRC: on the wire, and in buffers
    Lid dlid = 0;
    std::uint8_t sl = 0;
    std::uint8_t vl = 0;     // of the link that it is on: set by whatever sends it
    bool has_pkey = false;   // raw packets have none
    std::uint16_t pkey = 0;  // of the BTH
    std::uint8_t hops = 0;   // switches that it has passed

    // The owner's, while it has the packet.
    IbPacket* next = nullptr;
    IbPacket* next_copy = nullptr;  // a ring of the copies that are still in the switch; nullptr: it is alone
    IbPacket* previous_copy = nullptr;
    TimeNs came_at = 0;     // to the switch
    TimeNs head_since = 0;  // of its queue
    IbPortNumber ingress = 0;
    std::uint8_t ingress_vl = 0;
};

}  // namespace urnic::netsim
