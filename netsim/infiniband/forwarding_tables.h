// Where a switch of InfiniBand sends what: linear and multicast forwarding tables (IBA 18.2.4.3).
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "netsim/infiniband/ib_packet.h"

namespace urnic::netsim {

/// From the unicast LIDs to ports.
class LinearForwardingTable {
  public:
    static constexpr std::uint32_t kCap = kMulticastLids;  // LinearFDBCap

    LinearForwardingTable() : ports_(kCap, kNoIbPort) {}

    /// `lid` is below kCap: others are left out.
    void set(Lid lid, IbPortNumber port) {
        if (lid < kCap) {
            ports_[lid] = port;
        }
    }
    /// kNoIbPort: to nobody.
    [[nodiscard]] IbPortNumber port(Lid lid) const { return lid < kCap ? ports_[lid] : kNoIbPort; }

  private:
    std::vector<IbPortNumber> ports_;
};

/// From multicast LIDs to sets of ports; bit n is port n.
class MulticastForwardingTable {
  public:
    static constexpr std::uint32_t kCap = 1024;  // MulticastFDBCap
    using Ports = std::bitset<256>;

    MulticastForwardingTable() : ports_(kCap) {}

    [[nodiscard]] static bool has(Lid mlid) { return mlid >= kMulticastLids && mlid < kMulticastLids + kCap; }
    /// MLIDs beyond the table are left out.
    void set(Lid mlid, const Ports& ports) {
        if (has(mlid)) {
            ports_[mlid - kMulticastLids] = ports;
        }
    }
    [[nodiscard]] Ports ports(Lid mlid) const { return has(mlid) ? ports_[mlid - kMulticastLids] : Ports{}; }

  private:
    std::vector<Ports> ports_;
};

}  // namespace urnic::netsim
