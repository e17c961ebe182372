// A whole network: the switches of a topology, its links with their rates and delays, and the ports by which
// hosts hang on it. Pure: time is an argument, and what packets are is the caller's business. No allocation
// once it is made, but for pause frames where their number is not bounded (NetworkOptions::pause_frames).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "netsim/network/timer_heap.h"
#include "netsim/switch/switch.h"
#include "netsim/topology/routes.h"
#include "netsim/topology/topology.h"

namespace urnic::netsim {

/// A packet on its way through a fabric. It belongs to the fabric from send() to deliver() or drop().
struct NetworkPacket : SwitchedPacket {
    NodeIndex to = kNoNode;  // a host
    std::uint64_t hash = 0;  // of its flow: flow_hash()

    // The fabric's own, while it has the packet.
    TimeNs arrives_at = 0;
    std::uint16_t pause_quanta = 0;  // of a pause frame
    bool is_pause = false;
};

class NetworkOutbox {
  public:
    virtual ~NetworkOutbox() = default;
    /// The packet came whole.
    virtual void deliver(TimeNs now, NodeIndex host, NetworkPacket& packet) = 0;
    /// `at` had no room for it.
    virtual void drop(TimeNs now, NodeIndex at, NetworkPacket& packet) = 0;
    /// The host's port has begun to send a packet that waited: there is room for another.
    virtual void room(TimeNs now, NodeIndex host) = 0;
    /// A pause frame came to the host, whose port obeys it without help; 0 quanta end a pause.
    virtual void paused(TimeNs /*now*/, NodeIndex /*host*/, std::uint8_t /*priority*/,
                        std::uint16_t /*quanta*/) {}
};

struct NetworkOptions {
    /// Of every switch; `ports` and `seed` are filled in from the topology and the seed here.
    SwitchOptions switches;
    std::array<std::uint32_t, kPriorities> weights{};  // of every port: EgressPort::Options
    std::uint64_t seed = 1;                            // of the marks
    std::uint64_t ecmp_seed = 1;                       // of the choices among equal ways
    /// Pause frames that can be on links at once; one more is lost, and what it began or ended waits for the
    /// next or runs out. 0: any number, which may allocate.
    std::uint32_t pause_frames = 0;
};

class Network {
  public:
    /// problem_of(topology) is empty.
    Network(const Topology& topology, const NetworkOptions& options, NetworkOutbox& outbox);

    /// The host gives a packet to its port, where it waits for its turn and for the end of a pause.
    void send(TimeNs now, NodeIndex host, NetworkPacket& packet);
    /// The host asks its switch for a pause; 0 quanta end it.
    void send_pause(TimeNs now, NodeIndex host, std::uint8_t priority, std::uint16_t quanta);
    /// Of NetworkOptions::pause_frames, those that are on no link.
    [[nodiscard]] std::size_t spare_pauses() const { return free_pauses_.size(); }
    /// Bytes that wait in the host's port.
    [[nodiscard]] std::uint64_t waiting_bytes(NodeIndex host, std::uint8_t priority) const {
        return hosts_[host]->port.bytes(priority);
    }

    /// When on_timer() wants to be called.
    [[nodiscard]] TimeNs deadline() const { return timers_.first_time(); }
    /// Lets one thing happen that is due.
    void on_timer(TimeNs now);
    /// Where that happens, and nothing elsewhere at that time; deadline() is not kNever.
    [[nodiscard]] NodeIndex next_node() const {
        const std::uint32_t timer = timers_.first();
        const Direction& direction = directions_[timer / 2];
        return timer % 2 == 0 ? direction.from : direction.to;
    }

    // --- What can be seen. Ports of a node are those of routes().ports(node).
    [[nodiscard]] const Routes& routes() const { return routes_; }
    /// nullptr: `node` is a host.
    [[nodiscard]] const Switch* switch_at(NodeIndex node) const {
        return switches_[node] != nullptr ? &switches_[node]->logic : nullptr;
    }
    [[nodiscard]] const EgressPort& host_port(NodeIndex host) const { return hosts_[host]->port; }
    /// The port by which the switch `node` sends packets of that hash to a host; none: it cannot be reached.
    [[nodiscard]] std::optional<PortIndex> egress(NodeIndex node, NodeIndex to, std::uint64_t hash) const;
    [[nodiscard]] std::uint64_t pauses_received(NodeIndex host) const { return hosts_[host]->pauses; }
    /// Calls of on_timer() that had something to do.
    [[nodiscard]] std::uint64_t events() const { return events_; }

  private:
    // One direction of a link: what has left its sender and has not arrived.
    struct Direction {
        NodeIndex from = kNoNode;
        PortIndex from_port = 0;
        NodeIndex to = kNoNode;
        PortIndex to_port = 0;
        LinkSpec spec;
        TimeNs sent_until = 0;  // what the sender has begun to send
        NetworkPacket* head = nullptr;
        NetworkPacket* tail = nullptr;
    };
    struct SwitchNode final : SwitchOutbox {
        SwitchNode(Network& owner, NodeIndex node, const SwitchOptions& options)
            : fabric(owner), index(node), logic(options, *this) {}
        void transmit(PortIndex port, SwitchedPacket& packet, TimeNs done) override;
        void drop(SwitchedPacket& packet) override;
        void pause(PortIndex port, std::uint8_t priority, std::uint16_t quanta) override;
        Network& fabric;
        NodeIndex index;
        Switch logic;
    };
    struct HostNode {
        explicit HostNode(const EgressPort::Options& options) : port(options) {}
        EgressPort port;
        std::uint64_t pauses = 0;
    };

    // Two timers for each direction: its sender's port, and what arrives.
    [[nodiscard]] static std::uint32_t port_timer(std::uint32_t direction) { return 2 * direction; }
    [[nodiscard]] static std::uint32_t arrival_timer(std::uint32_t direction) { return 2 * direction + 1; }
    [[nodiscard]] std::uint32_t out_of(NodeIndex node, PortIndex port) const { return first_[node] + port; }

    void put_on_link(std::uint32_t direction, NetworkPacket& packet, TimeNs done);
    void put_pause_on_link(std::uint32_t direction, std::uint8_t priority, std::uint16_t quanta);
    void run_port(std::uint32_t direction);
    void run_host_port(NodeIndex host);
    void arrive(std::uint32_t direction);
    void arrive_at_switch(NodeIndex node, PortIndex port, NetworkPacket& packet);
    void take_pause(NodeIndex node, PortIndex port, NetworkPacket& packet);
    void set_port_timer(NodeIndex node, PortIndex port);

    Routes routes_;
    NetworkOptions options_;
    NetworkOutbox& outbox_;
    TimeNs now_ = 0;
    std::uint64_t events_ = 0;
    TimerHeap timers_;
    std::vector<std::uint32_t> first_;  // direction out of a node's port 0
    std::vector<Direction> directions_;
    std::vector<std::unique_ptr<SwitchNode>> switches_;  // by node
    std::vector<std::unique_ptr<HostNode>> hosts_;       // by node
    std::deque<NetworkPacket> pauses_;
    std::vector<NetworkPacket*> free_pauses_;
};

}  // namespace urnic::netsim
