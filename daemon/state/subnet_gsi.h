// QP1 of the ports of InfiniBand, as connection management needs it. Control thread.
#pragma once

#include <cstdint>

#include "daemon/state/rnic_state.h"
#include "rnic/subnet/mad_packet.h"

namespace urnic::daemon {

class SubnetGsi {
  public:
    /// Both ports are on one subnet whose management is here.
    [[nodiscard]] virtual bool share_subnet(const RnicState& a, const RnicState& b) const = 0;
    /// The RNIC on the subnet of `on` whose port has the LID; nullptr: none.
    [[nodiscard]] virtual RnicState* find_lid(const RnicState& on, std::uint16_t lid) const = 0;
    /// A MAD from QP1 of the port; a source LID that is none of its own is filled in. It is under way when
    /// this returns, and may be lost, as any datagram: for want of memory, or of management here.
    virtual void send(const RnicState& from, const subnet::MadPacket& packet) = 0;

  protected:
    ~SubnetGsi() = default;
};

}  // namespace urnic::daemon
