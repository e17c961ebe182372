// The management network of a subnet: nodes, cables, agents, and the packets of QP0 and QP1 between them.
// Pure; who carries the other packets is told what has changed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "rnic/subnet/key_violation.h"
#include "rnic/subnet/mad_packet.h"
#include "rnic/subnet/node.h"
#include "rnic/subnet/performance_agent.h"
#include "rnic/subnet/subnet_agent.h"

namespace urnic::subnet {

using NodeId = std::uint32_t;

/// What the outside does for a subnet.
class SubnetHost {
  public:
    virtual ~SubnetHost() = default;
    /// A Set has changed a node.
    virtual void on_change(NodeId node, const Change& change) = 0;
    /// The state of a port has changed, by a Set of either end or by its cable.
    virtual void on_port_state(NodeId node, std::uint8_t port) = 0;
    /// A MAD that is no agent's own came to a node: to programs there. Returns whether one takes it.
    virtual bool deliver(NodeId node, const MadPacket& packet) = 0;
    virtual void read_counters(NodeId node, std::uint8_t port, PortCounterValues& values) = 0;
    /// Before an agent reads or sets PortInfo: what the outside counts for it.
    virtual void refresh_port_info(NodeId /*node*/) {}
};

/// Sees the packets of all nodes as they are on the links. What a node sends to itself is seen as if it had
/// gone out and come in.
class PacketTap {
  public:
    virtual ~PacketTap() = default;
    virtual void on_sent(NodeId node, const PacketBytes& packet) = 0;
    /// Around the handling of a packet that has come to a node, with nothing of others in between: what
    /// becomes of it is what changes in SubnetCounters.
    virtual void on_arrival(NodeId node) = 0;
    virtual void on_handled(NodeId node, const PacketBytes& packet) = 0;
};

struct SubnetCounters {
    std::uint64_t packets = 0;         // that came to a node
    std::uint64_t drop_malformed = 0;  // decode() says so
    std::uint64_t drop_route = 0;      // directed route, LID or forwarding table lead nowhere
    std::uint64_t drop_link = 0;       // the port is down, or not active and the packet not QP0's
    std::uint64_t drop_lifetime = 0;   // too many hops: tables that go in a circle
    std::uint64_t drop_full = 0;       // more under way than VL15's buffers hold
    std::uint64_t drop_m_key = 0;      // the agent discards it: not its M_Key
    std::uint64_t drop_not_taken = 0;  // no agent and no program wants it
};

class Subnet {
  public:
    /// Packets under way at once: room for a subnet manager's whole sweep.
    static constexpr std::size_t kMaxUnderWay = 8192;
    static constexpr std::uint8_t kMaxHops = 64;

    /// The host lives longer.
    explicit Subnet(SubnetHost& host) : host_(host) {}

    NodeId add(const NodeOptions& options);
    /// A cable; each port has one at most.
    void connect(NodeId a, std::uint8_t port_a, NodeId b, std::uint8_t port_b);
    /// The cable of a port, which has one, is on at this end, or off: `urnic port`.
    void set_enabled(NodeId node, std::uint8_t port, bool is_enabled, TimeNs now);
    /// A program on the node is a subnet manager, or is no longer.
    void set_is_sm(NodeId node, bool is_sm, TimeNs now);
    /// A packet to the node had a wrong key. Returns when it is of use to say so again.
    TimeNs report(NodeId node, const KeyViolation& violation, TimeNs now);

    /// From now on; it lives longer, or until it is another one. nullptr: nobody looks.
    void set_tap(PacketTap* tap) { tap_ = tap; }

    /// A MAD from QP0 or QP1 of a node; a source LID that is none of its own is filled in, and a directed
    /// route has the permissive LIDs. It is under way then.
    void send(NodeId node, MadPacket packet);
    /// Carries packets on, at most `count`. Returns whether there are more.
    bool advance(TimeNs now, std::size_t count);
    /// When advance() has something to do, though nothing is under way: a trap that had to wait.
    [[nodiscard]] TimeNs next_event() const;

    [[nodiscard]] Node& node(NodeId id) { return places_.at(id)->node; }
    [[nodiscard]] const Node& node(NodeId id) const { return places_.at(id)->node; }
    [[nodiscard]] const SubnetCounters& counters() const { return counters_; }

  private:
    static constexpr NodeId kNobody = ~NodeId{0};
    struct Cable {
        NodeId node = kNobody;  // at the other end
        std::uint8_t port = 0;
        bool is_enabled = true;  // at this end
    };
    struct Place {
        explicit Place(const NodeOptions& options);
        Node node;
        SubnetAgent agent;
        PerformanceAgent performance;
        std::string name;
        std::vector<Cable> cables;  // by port
        TimeNs next_trap = 0;
        bool has_late_trap = false;  // of a link's state, which came before next_trap
    };
    struct UnderWay {
        NodeId to = 0;
        std::uint8_t port = 0;  // that it comes in through; 0: it is the node's own
        std::uint8_t hops = 0;
        PacketBytes bytes{};
    };
    class Source;

    void arrive(const UnderWay& from, TimeNs now);
    void route(const UnderWay& from, TimeNs now);
    void route_directed(const UnderWay& from, MadPacket& packet, TimeNs now);
    void route_by_lid(const UnderWay& from, const MadPacket& packet, TimeNs now);
    void transmit(const UnderWay& from, std::uint8_t port, const MadPacket& packet);
    void deliver(const UnderWay& from, MadPacket packet, TimeNs now);
    void deliver_smp(NodeId to, std::uint8_t ingress, MadPacket& packet, TimeNs now);
    void deliver_gmp(NodeId to, MadPacket& packet);
    void reply(NodeId from, MadPacket packet);
    void enqueue(const UnderWay& packet);
    void apply(NodeId to, const Change& change, TimeNs now);
    void refresh_link(NodeId id, std::uint8_t port, bool is_reset, TimeNs now);
    void set_connected_and_tell(NodeId id, std::uint8_t port, bool is_connected, TimeNs now);
    void send_link_trap(NodeId from, TimeNs now);
    void send_m_key_trap(NodeId from, MadPacket violation, TimeNs now);
    void send_late_traps(TimeNs now);
    void send_trap(NodeId from, std::uint8_t type, std::uint16_t number,
                   const decltype(wire::mad::Notice::data_details)& details, TimeNs now);

    SubnetHost& host_;
    PacketTap* tap_ = nullptr;
    std::vector<std::unique_ptr<Place>> places_;
    std::deque<UnderWay> under_way_;
    SubnetCounters counters_;
};

}  // namespace urnic::subnet
