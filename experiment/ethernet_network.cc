#include "experiment/ethernet_network.h"

#include <algorithm>

#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"

namespace urnic::experiment {

namespace {

// Preamble, start of frame, FCS and the gap between frames.
constexpr std::uint32_t kEthernetOverheadBytes = 24;

wire::Gid gid_of(netsim::NodeIndex node) {
    const std::uint32_t number = node + 1;
    return {0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0xff,
            0xff,
            198,
            18,
            static_cast<std::uint8_t>(number >> 8U),
            static_cast<std::uint8_t>(number)};
}

netsim::NodeIndex node_of(const wire::Path& path) {
    const std::uint8_t* const to = path.bytes.data() + path.l3_offset + wire::kIpv4Destination;
    return (std::uint32_t{to[2]} << 8U | to[3]) - 1;
}

netsim::NetworkOptions with_seed(const ExperimentConfig& config) {
    netsim::NetworkOptions options = config.fabric;
    options.seed = config.seed;
    return options;
}

}  // namespace

EthernetNetwork::EthernetNetwork(const ExperimentConfig& config, VirtualNetworkListener& listener)
    : listener_(listener),
      priority_(config.rnic.priority),
      network_(config.topology, with_seed(config), *this) {
    const netsim::Topology& topology = config.topology;
    for (netsim::NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        if (network_.switch_at(node) == nullptr) {
            continue;
        }
        netsim::PortIndex number = 0;
        for (const netsim::TopologyPort& port : network_.routes().ports(node)) {
            ports_.push_back({topology.nodes[node].name + ">" + topology.nodes[port.neighbour].name,
                              topology.links[port.link].spec.rate, false});
            places_.push_back({node, number++});
        }
    }
}

VirtualPath EthernetNetwork::path(netsim::NodeIndex from, netsim::NodeIndex to, std::uint16_t udp_source_port,
                                  std::uint8_t /*sl*/) const {
    wire::PathSpec spec;
    spec.src_gid = gid_of(from);
    spec.dst_gid = gid_of(to);
    spec.traffic_class = static_cast<std::uint8_t>(priority_ << 5U | wire::kEct0);
    spec.udp_src_port = udp_source_port;
    netsim::FlowKey key;
    key.source = spec.src_gid;
    key.destination = spec.dst_gid;
    key.source_port = udp_source_port;
    key.destination_port = wire::kRocev2UdpPort;
    VirtualPath made;
    made.path = wire::make_path(spec);
    std::copy(spec.dst_gid.begin(), spec.dst_gid.end(), made.address.dgid);
    made.hash = netsim::flow_hash(key);
    made.lane = priority_;
    return made;
}

void EthernetNetwork::send(TimeNs now, const wire::Path& path, std::uint64_t hash, VirtualPacket& packet) {
    auto& frame = static_cast<Frame&>(packet);
    frame.to = node_of(path);
    frame.hash = hash;
    frame.traffic_class = path.bytes[path.l3_offset + wire::kIpv4Tos];
    frame.priority = frame.traffic_class >> 5U;
    frame.ecn_capable = (frame.traffic_class & wire::kEcnMask) != 0;
    frame.marked = false;
    frame.bytes = static_cast<std::uint32_t>(path.length + transport_bytes(packet) + wire::kIcrcBytes +
                                             kEthernetOverheadBytes);
    network_.send(now, packet.from, frame);
}

void EthernetNetwork::describe(const VirtualPacket& packet, netsim::NodeIndex host,
                               wire::PacketView& view) const {
    const auto& frame = static_cast<const Frame&>(packet);
    view.src_gid = gid_of(packet.from);
    view.dst_gid = gid_of(host);
    view.traffic_class = frame.traffic_class | (frame.marked ? wire::kEcnCe : 0);
}

PortReading EthernetNetwork::read(std::size_t port, TimeNs /*now*/) const {
    const netsim::Switch& at = *network_.switch_at(places_[port].node);
    PortReading reading;
    reading.counters = at.counters(places_[port].port);
    for (std::uint8_t priority = 0; priority < netsim::kPriorities; ++priority) {
        reading.queue_bytes += at.queue_bytes(places_[port].port, priority);
    }
    return reading;
}

trace::PortView EthernetNetwork::look(netsim::NodeIndex node, netsim::PortIndex port, TimeNs now) const {
    const netsim::Switch* const at = network_.switch_at(node);
    const netsim::EgressPort& egress = at != nullptr ? at->egress(port) : network_.host_port(node);
    trace::PortView view;
    for (std::uint8_t priority = 0; priority < netsim::kPriorities; ++priority) {
        const auto bit = static_cast<std::uint8_t>(1U << priority);
        view.queue_bytes += egress.bytes(priority);
        view.stopped |= egress.is_paused(now, priority) ? bit : 0;
        view.stops |= at != nullptr && at->is_pausing(port, priority) ? bit : 0;
    }
    if (at != nullptr) {
        const netsim::SwitchPortCounters& counters = at->counters(port);
        view.marks = counters.marks_made;
        view.dropped = counters.dropped;
        view.watchdog_dropped = counters.watchdog_dropped;
    }
    return view;
}

void EthernetNetwork::deliver(TimeNs now, netsim::NodeIndex host, netsim::NetworkPacket& packet) {
    listener_.deliver(now, host, static_cast<Frame&>(packet));
}

void EthernetNetwork::drop(TimeNs /*now*/, netsim::NodeIndex /*at*/, netsim::NetworkPacket& packet) {
    listener_.dropped();
    packets_.give_back(static_cast<Frame&>(packet));
}

}  // namespace urnic::experiment
