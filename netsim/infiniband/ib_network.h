// A subnet at work: the switches of a topology, its links, and the ports of its hosts (channel adapters).
// Pure, as netsim/network is, of which it is InfiniBand's counterpart. No allocation once it is made.
// Port n of a switch is the topology's port n - 1 of that node; a host has port 1.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "netsim/infiniband/ib_switch.h"
#include "netsim/network/timer_heap.h"
#include "netsim/topology/routes.h"
#include "netsim/topology/topology.h"

namespace urnic::netsim {

/// A packet on its way. It belongs to the network from send() to deliver(), drop() or to_management().
struct IbNetworkPacket : IbPacket {
    // The network's own, while it has the packet.
    TimeNs arrives_at = 0;
    bool is_credits = false;  // a flow control packet:
    FlowControlPacket credits;
};

class IbNetworkOutbox {
  public:
    virtual ~IbNetworkOutbox() = default;
    /// The packet came whole. It takes up room in the host's receive buffer until consume().
    virtual void deliver(TimeNs now, NodeIndex host, IbNetworkPacket& packet) = 0;
    /// The packet ends at `at`, whose counters say why, or on a link out of it that went down.
    virtual void drop(TimeNs now, NodeIndex at, IbNetworkPacket& packet) = 0;
    /// See IbSwitchOutbox.
    virtual void wrong_pkey(TimeNs /*now*/, NodeIndex /*at*/, IbPortNumber /*port*/,
                            const IbNetworkPacket& /*packet*/) {}
    /// See IbSwitchOutbox.
    virtual void to_management(TimeNs now, NodeIndex at, IbPortNumber ingress, IbNetworkPacket& packet) = 0;
    virtual IbNetworkPacket* copy(const IbNetworkPacket& packet) = 0;
    /// The host's port has begun to send a packet that waited, or has discarded one.
    virtual void room(TimeNs /*now*/, NodeIndex /*host*/) {}
    /// The state of a port has changed, but not by set_state().
    virtual void state_changed(TimeNs /*now*/, NodeIndex /*node*/, IbPortNumber /*port*/) {}
};

struct IbNetworkOptions {
    IbPort::Options port;  // of every port; its rate is the link's
    IbSwitchInfo switches;
    // Of every port; absent: SLs modulo the number of VLs, and the tables of VlArbiter().
    std::optional<std::array<std::uint8_t, kSls>> sl_to_vl;
    std::optional<VlArbiter::Table> vl_high;
    std::optional<VlArbiter::Table> vl_low;
    std::uint8_t vl_high_limit = 0;
};

class IbNetwork {
  public:
    /// problem_of(topology) is empty. Links come up at time 0: their ports are in Init, and nobody has a LID.
    IbNetwork(const Topology& topology, const IbNetworkOptions& options, IbNetworkOutbox& outbox);

    /// The host gives a packet to its port: on VL 15 where packet.vl is that, else on the VL of packet.sl.
    void send(TimeNs now, NodeIndex host, IbNetworkPacket& packet);
    /// The host has taken a delivered packet out of its receive buffer.
    void consume(TimeNs now, NodeIndex host, const IbNetworkPacket& packet);
    /// IbSwitch::send().
    void send_from_switch(TimeNs now, NodeIndex node, IbPortNumber egress, IbNetworkPacket& packet);

    /// Enables or disables a port (PortPhysicalState). A link is up while both its ends are enabled.
    void enable(TimeNs now, NodeIndex node, IbPortNumber port, bool enabled);
    [[nodiscard]] bool is_up(NodeIndex node, IbPortNumber port) const {
        return directions_[out_of(node, port)].up;
    }
    /// IbPort::set_state(), after which what waited goes.
    bool set_state(TimeNs now, NodeIndex node, IbPortNumber port, IbPortState state);
    /// Something of a port was set (IbSwitch::changed()).
    void changed(TimeNs now, NodeIndex node, IbPortNumber port);

    /// When on_timer() wants to be called.
    [[nodiscard]] TimeNs deadline() const { return timers_.first_time(); }
    /// Lets one thing happen that is due.
    void on_timer(TimeNs now);
    /// Where that happens; deadline() is not kNever. Elsewhere no packet moves then, though a port may grant
    /// credit.
    [[nodiscard]] NodeIndex next_node() const {
        const std::uint32_t timer = timers_.first();
        const Direction& direction = directions_[timer / 2];
        return timer % 2 == 0 ? direction.from : direction.to;
    }

    [[nodiscard]] const Topology& topology() const { return topology_; }
    [[nodiscard]] const Routes& routes() const { return routes_; }
    /// nullptr: `node` is a host.
    [[nodiscard]] IbSwitch* switch_at(NodeIndex node) {
        return switches_[node] != nullptr ? &switches_[node]->logic : nullptr;
    }
    [[nodiscard]] const IbSwitch* switch_at(NodeIndex node) const {
        return switches_[node] != nullptr ? &switches_[node]->logic : nullptr;
    }
    [[nodiscard]] IbPort& port(NodeIndex node, IbPortNumber number) {
        return switches_[node] != nullptr ? switches_[node]->logic.port(number) : hosts_[node]->port;
    }
    [[nodiscard]] const IbPort& port(NodeIndex node, IbPortNumber number) const {
        return switches_[node] != nullptr ? switches_[node]->logic.port(number) : hosts_[node]->port;
    }
    /// The VL of each SL at a host's port; 15: none.
    [[nodiscard]] std::array<std::uint8_t, kSls>& sl_to_vl(NodeIndex host) { return hosts_[host]->sl_to_vl; }
    [[nodiscard]] const std::array<std::uint8_t, kSls>& sl_to_vl(NodeIndex host) const {
        return hosts_[host]->sl_to_vl;
    }
    /// Calls of on_timer() that had something to do.
    [[nodiscard]] std::uint64_t events() const { return events_; }

  private:
    // One direction of a link: what has left its sender and has not arrived.
    struct Direction {
        NodeIndex from = kNoNode;
        IbPortNumber from_port = 0;
        NodeIndex to = kNoNode;
        IbPortNumber to_port = 0;
        TimeNs delay_ns = 0;
        bool enabled = true;  // the sender's port
        bool up = false;
        IbNetworkPacket* head = nullptr;
        IbNetworkPacket* tail = nullptr;
        std::array<std::uint8_t, kDataVls> grants{};  // flow control packets of each VL on the way
    };
    struct SwitchNode final : IbSwitchOutbox {
        SwitchNode(IbNetwork& owner, NodeIndex node, const IbSwitchOptions& options)
            : network(owner), index(node), logic(options, *this) {}
        void transmit(IbPortNumber port, IbPacket& packet, TimeNs done) override;
        void drop(IbPacket& packet) override;
        void wrong_pkey(IbPortNumber port, const IbPacket& packet) override;
        void to_management(IbPortNumber ingress, IbPacket& packet) override;
        IbPacket* copy(const IbPacket& packet) override;
        void room(IbPortNumber port, std::uint8_t vl) override;
        void wake(IbPortNumber port) override;
        IbNetwork& network;
        NodeIndex index;
        IbSwitch logic;
    };
    struct HostNode {
        explicit HostNode(const IbPort::Options& options) : port(options) {}
        IbPort port;
        std::array<std::uint8_t, kSls> sl_to_vl{};
    };

    // Two timers for each direction: its sender's port, and what arrives.
    [[nodiscard]] static std::uint32_t port_timer(std::uint32_t direction) { return 2 * direction; }
    [[nodiscard]] static std::uint32_t arrival_timer(std::uint32_t direction) { return 2 * direction + 1; }
    [[nodiscard]] std::uint32_t out_of(NodeIndex node, IbPortNumber port) const {
        return first_[node] + port - 1;
    }

    void add_node(NodeIndex node, const IbNetworkOptions& options);
    void set_lanes(NodeIndex node, const IbNetworkOptions& options);
    void put_on_link(std::uint32_t direction, IbNetworkPacket& packet, TimeNs done);
    void grant(std::uint32_t direction, std::uint8_t vl);
    void put_credits_on_link(std::uint32_t direction, const FlowControlPacket& credits);
    void train(std::uint32_t direction, bool up);
    void empty(Direction& direction);
    void run_host(NodeIndex host);
    void set_port_timer(NodeIndex node, IbPortNumber port);
    void arrive(std::uint32_t direction);
    void arrive_at_port(const Direction& direction, IbNetworkPacket& packet);
    void take_credits(std::uint32_t direction, IbNetworkPacket& packet);

    Topology topology_;
    Routes routes_;
    IbNetworkOutbox& outbox_;
    TimeNs now_ = 0;
    std::uint64_t events_ = 0;
    TimerHeap timers_;
    std::vector<std::uint32_t> first_;  // direction out of a node's port 1
    std::vector<Direction> directions_;
    std::vector<std::unique_ptr<SwitchNode>> switches_;  // by node
    std::vector<std::unique_ptr<HostNode>> hosts_;       // by node
    std::vector<IbNetworkPacket> credit_packets_;
    std::vector<IbNetworkPacket*> free_credit_packets_;
};

}  // namespace urnic::netsim
