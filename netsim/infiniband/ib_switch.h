// A switch of InfiniBand, pure: linear and multicast forwarding, virtual lanes, credits, lifetimes, P_Key
// enforcement, and counters for each port. What comes waits at the port where it leaves, and until then takes
// the room of the port where it came: a port without credit thereby stops those that send to it, and with
// them what they send elsewhere on the same virtual lane (head-of-line blocking).
//
// A subnet management agent attaches here: SwitchInfo is info(), PortInfo is port(n).info(), state() and
// set_state(), P_KeyTable is port(n).pkeys(), VLArbitration is port(n).arbiter(), SLtoVLMapping is
// sl_to_vl(), the forwarding tables are linear() and multicast(), PortCounters are port(n).counters(). After
// it has set anything of a port it calls changed(now, n), which lets go what may now go. Packets for the
// switch itself (by its LID, the permissive LID on VL 15, or a table's port 0) come by
// IbSwitchOutbox::to_management(); what the agent sends leaves by send(), which is also how a directed route
// names a port.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "netsim/infiniband/forwarding_tables.h"
#include "netsim/infiniband/ib_packet.h"
#include "netsim/infiniband/ib_port.h"

namespace urnic::netsim {

class IbSwitchOutbox {
  public:
    virtual ~IbSwitchOutbox() = default;
    /// The packet leaves by `port`; its last bit is on the wire at `done`.
    virtual void transmit(IbPortNumber port, IbPacket& packet, TimeNs done) = 0;
    /// The packet ends here; a counter says why.
    virtual void drop(IbPacket& packet) = 0;
    /// The port through which the packet came, or was to leave, does not let its P_Key pass; drop() follows.
    virtual void wrong_pkey(IbPortNumber /*port*/, const IbPacket& /*packet*/) {}
    /// The packet is for the switch itself; `ingress` 0: from its own agent.
    virtual void to_management(IbPortNumber ingress, IbPacket& packet) = 0;
    /// A copy of a multicast packet; nullptr: there is no memory, and one port gets none.
    virtual IbPacket* copy(const IbPacket& packet) = 0;
    /// Room has come free in the receive buffer of a port: IbPort::grant() may have something to send.
    virtual void room(IbPortNumber port, std::uint8_t vl) = 0;
    /// What deadline(port) says may have changed.
    virtual void wake(IbPortNumber port) = 0;
};

/// SwitchInfo as far as forwarding feels it (IBA 14.2.5.4).
struct IbSwitchInfo {
    Lid lid = 0;  // of port 0; 0: none yet
    std::uint8_t lmc = 0;
    /// LifeTimeValue: a packet that is longer than 4.096 us * 2^n in the switch is discarded; above 19:
    /// never.
    std::uint8_t life_time = 18;
    bool enforces_partitions = true;  // PartitionEnforcementCap
};

struct IbSwitchOptions {
    std::vector<IbPort::Options> ports;  // 1 to kMaxIbPorts of them; the first is port 1
    IbSwitchInfo info;
};

class IbSwitch {
  public:
    IbSwitch(const IbSwitchOptions& options, IbSwitchOutbox& outbox);

    /// Ports with links: 1 to num_ports().
    [[nodiscard]] IbPortNumber num_ports() const { return static_cast<IbPortNumber>(ports_.size() - 1); }
    /// Port 0 has no link: only its P_Keys and its counters are of use.
    [[nodiscard]] IbPort& port(IbPortNumber number) { return ports_[number]; }
    [[nodiscard]] const IbPort& port(IbPortNumber number) const { return ports_[number]; }
    [[nodiscard]] IbSwitchInfo& info() { return info_; }
    [[nodiscard]] const IbSwitchInfo& info() const { return info_; }
    [[nodiscard]] LinearForwardingTable& linear() { return linear_; }
    [[nodiscard]] const LinearForwardingTable& linear() const { return linear_; }
    [[nodiscard]] MulticastForwardingTable& multicast() { return multicast_; }
    [[nodiscard]] const MulticastForwardingTable& multicast() const { return multicast_; }
    /// The VL that a packet with an SL gets that comes by one port and leaves by another; 15: it is dropped.
    [[nodiscard]] std::array<std::uint8_t, kSls>& sl_to_vl(IbPortNumber in, IbPortNumber out) {
        return sl_to_vl_[std::size_t{in} * ports_.size() + out];
    }
    [[nodiscard]] const std::array<std::uint8_t, kSls>& sl_to_vl(IbPortNumber in, IbPortNumber out) const {
        return sl_to_vl_[std::size_t{in} * ports_.size() + out];
    }

    /// The link of a port came up (to Init, from where a manager takes it on) or went down. On the way down
    /// what waits for the port is discarded.
    void set_link(TimeNs now, IbPortNumber port, bool up);
    /// Something of the port was set.
    void changed(TimeNs now, IbPortNumber port);

    /// A packet came whole by `ingress`, which is a port with a link, on packet.vl.
    void receive(TimeNs now, IbPortNumber ingress, IbPacket& packet);
    /// A flow control packet came.
    void receive_credits(TimeNs now, IbPortNumber port, const FlowControlPacket& packet);
    /// The switch's own agent sends a packet by `egress`; by kNoIbPort: as the tables say. packet.vl is
    /// kManagementVl, or its VL follows from its SL.
    void send(TimeNs now, IbPortNumber egress, IbPacket& packet);
    /// To be called at deadline(port), at once when that has passed.
    void on_timer(TimeNs now, IbPortNumber port);
    [[nodiscard]] TimeNs deadline(IbPortNumber port) const {
        return ports_[port].deadline(ib_lifetime_ns(info_.life_time));
    }
    /// Grants what is due on a VL: see IbPort::grant().
    [[nodiscard]] std::optional<FlowControlPacket> grant(IbPortNumber port, std::uint8_t vl) {
        return ports_[port].grant(vl);
    }

  private:
    void forward(TimeNs now, IbPacket& packet);
    void forward_multicast(TimeNs now, IbPacket& packet);
    void forward_to(TimeNs now, IbPortNumber egress, IbPacket& packet);
    /// The VL on which the packet leaves; kVls: none.
    [[nodiscard]] std::uint8_t egress_vl(IbPortNumber egress, const IbPacket& packet) const;
    [[nodiscard]] bool is_own(Lid lid) const {
        return info_.lid != 0 && (lid >> info_.lmc) == (info_.lid >> info_.lmc);
    }
    void to_management(IbPacket& packet);
    void relay_error(IbPacket& packet);
    void drop(IbPacket& packet);
    void drop_for_pkey(IbPortNumber port, IbPacket& packet);
    void leave(IbPacket& packet);
    void run(TimeNs now, IbPortNumber port);
    void discard_expired(TimeNs now, IbPortNumber port);

    IbSwitchOutbox& outbox_;
    IbSwitchInfo info_;
    std::vector<IbPort> ports_;
    std::vector<std::array<std::uint8_t, kSls>> sl_to_vl_;
    LinearForwardingTable linear_;
    MulticastForwardingTable multicast_;
};

}  // namespace urnic::netsim
