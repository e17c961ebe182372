// The network of an experiment, as its hosts and the simulation see it, whatever its link layer is.
//
// Packets are not bytes here: their headers pass as the engine makes them, and payload is a length. So frames
// are neither built nor parsed.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "abi/control.h"
#include "base/fraction.h"
#include "base/time.h"
#include "netsim/switch/switch.h"
#include "netsim/topology/topology.h"
#include "observe/trace/network_trace.h"
#include "rnic/wire/opcodes.h"
#include "rnic/wire/packet_view.h"

namespace urnic::experiment {

/// A packet of a QP. The network adds what it needs to take it along.
struct VirtualPacket {
    wire::PacketHeader header;
    std::uint32_t payload_bytes = 0;
    netsim::NodeIndex from = netsim::kNoNode;
};

/// All packets of a network, `Item`s that are VirtualPackets, too; memory grows to the most that were under
/// way.
template <typename Item>
class PacketPool {
  public:
    [[nodiscard]] Item& take() {
        if (free_.empty()) {
            free_.push_back(&items_.emplace_back());
            free_.reserve(items_.size());
        }
        Item& item = *free_.back();
        free_.pop_back();
        return item;
    }
    void give_back(Item& item) { free_.push_back(&item); }

  private:
    std::deque<Item> items_;
    std::vector<Item*> free_;
};

/// Queues of a host's port that do not wait for each other: priorities of Ethernet, VLs of InfiniBand.
inline constexpr std::uint32_t kPortLanes = 16;

/// The way of one end of a connection to the other.
struct VirtualPath {
    wire::Path path;
    abi::AddressVector address{};
    std::uint64_t hash = 0;  // of its flow
    std::uint8_t lane = 0;   // below kPortLanes
};

/// A port and its link.
struct VirtualPort {
    std::string name;  // "s1>h3"
    BitsPerSecond rate = 0;
    bool is_host = false;
};

/// What is seen of a port.
struct PortReading {
    netsim::SwitchPortCounters counters;
    std::uint64_t queue_bytes = 0;  // that wait at it
    TimeNs xmit_wait_ns = 0;        // PortXmitWait: with packets to send, and no credit for any of them
};

class VirtualNetworkListener {
  public:
    virtual ~VirtualNetworkListener() = default;
    /// The packet came. It is the network's until VirtualNetwork::give_back().
    virtual void deliver(TimeNs now, netsim::NodeIndex host, VirtualPacket& packet) = 0;
    /// A packet was lost.
    virtual void dropped() = 0;
    /// The host's port has begun to send a packet that waited.
    virtual void room(TimeNs now, netsim::NodeIndex host) = 0;
};

class VirtualNetwork {
  public:
    virtual ~VirtualNetwork() = default;

    /// `udp_source_port` is of Ethernet alone, `sl` of InfiniBand.
    [[nodiscard]] virtual VirtualPath path(netsim::NodeIndex from, netsim::NodeIndex to,
                                           std::uint16_t udp_source_port, std::uint8_t sl) const = 0;
    /// Returns whether nothing waits in that lane of the host's port.
    [[nodiscard]] virtual bool has_room(netsim::NodeIndex host, std::uint8_t lane) const = 0;

    /// A packet to fill in, which send() takes.
    [[nodiscard]] virtual VirtualPacket& take() = 0;
    virtual void give_back(VirtualPacket& packet) = 0;
    /// `path` is a VirtualPath's, or one that the QP has made of it for a CNP.
    virtual void send(TimeNs now, const wire::Path& path, std::uint64_t hash, VirtualPacket& packet) = 0;
    /// Addresses and traffic class of a packet that came to `host`.
    virtual void describe(const VirtualPacket& packet, netsim::NodeIndex host,
                          wire::PacketView& view) const = 0;

    /// When on_timer() wants to be called.
    [[nodiscard]] virtual TimeNs deadline() const = 0;
    /// Lets one thing happen that is due.
    virtual void on_timer(TimeNs now) = 0;

    // --- For a trace. Ports are numbered as netsim::Routes has them.
    /// Where the next thing happens; deadline() is not kNever.
    [[nodiscard]] virtual netsim::NodeIndex next_node() const = 0;
    /// The port by which the switch `node` sends what goes by that path to that host.
    [[nodiscard]] virtual netsim::PortIndex egress(netsim::NodeIndex node, netsim::NodeIndex to,
                                                   const VirtualPath& path) const = 0;
    [[nodiscard]] virtual trace::PortView look(netsim::NodeIndex node, netsim::PortIndex port,
                                               TimeNs now) const = 0;

    /// All that are read.
    [[nodiscard]] virtual const std::vector<VirtualPort>& ports() const = 0;
    [[nodiscard]] virtual PortReading read(std::size_t port, TimeNs now) const = 0;
    [[nodiscard]] virtual std::uint64_t pauses_received(netsim::NodeIndex host) const = 0;
    /// Calls of on_timer() that had something to do.
    [[nodiscard]] virtual std::uint64_t events() const = 0;
};

/// Bytes of a packet behind its path's: transport headers, payload and pad.
[[nodiscard]] inline std::uint32_t transport_bytes(const VirtualPacket& packet) {
    return wire::opcode_info(packet.header.opcode).header_bytes + packet.payload_bytes +
           packet.header.pad_count;
}

}  // namespace urnic::experiment
