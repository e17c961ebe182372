#include "experiment/subnet_network.h"

#include "base/bytes.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"

namespace urnic::experiment {

SubnetNetwork::SubnetNetwork(const ExperimentConfig& config, VirtualNetworkListener& listener)
    : listener_(listener), network_(config.topology, config.subnet, *this) {
    const netsim::Topology& topology = config.topology;
    const std::vector<netsim::NodeIndex> hosts = topology.hosts();
    std::vector<netsim::Lid> of_hosts;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        of_hosts.push_back(static_cast<netsim::Lid>(i + 1));
    }
    const netsim::SubnetPlan plan = netsim::make_subnet_plan(topology, of_hosts, 0);
    netsim::set_linear_routes(network_, plan, netsim::find_linear_routes(network_, plan));
    netsim::activate_ports(network_, 0);
    lids_ = plan.lids;
    sl_to_vl_ = network_.sl_to_vl(hosts.front());
    for (netsim::NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        netsim::IbPortNumber number = 1;
        for (const netsim::TopologyPort& port : network_.routes().ports(node)) {
            ports_.push_back({topology.nodes[node].name + ">" + topology.nodes[port.neighbour].name,
                              topology.links[port.link].spec.rate, topology.nodes[node].is_host});
            places_.push_back({node, number++});
        }
    }
}

VirtualPath SubnetNetwork::path(netsim::NodeIndex from, netsim::NodeIndex to,
                                std::uint16_t /*udp_source_port*/, std::uint8_t sl) const {
    wire::PathSpec spec;
    spec.is_infiniband = true;
    spec.sl = sl;
    spec.slid = lids_[from];
    spec.dlid = lids_[to];
    VirtualPath made;
    made.path = wire::make_path(spec);
    made.address.sl = sl;
    made.address.dlid = spec.dlid;
    made.lane = sl_to_vl_[sl];
    return made;
}

void SubnetNetwork::send(TimeNs now, const wire::Path& path, std::uint64_t /*hash*/, VirtualPacket& packet) {
    auto& sent = static_cast<LinkPacket&>(packet);
    const auto* const lrh = reinterpret_cast<const std::byte*>(path.bytes.data());
    static_cast<netsim::IbNetworkPacket&>(sent) = {};
    sent.dlid = wire::load_be16(lrh + wire::kLrhDlid);
    sent.slid = wire::load_be16(lrh + wire::kLrhSlid);
    sent.sl = std::to_integer<std::uint8_t>(lrh[wire::kLrhSlLnh] >> 4U);
    sent.has_pkey = true;
    sent.pkey = packet.header.pkey;
    sent.bytes = static_cast<std::uint32_t>(path.length + transport_bytes(packet) + wire::kIcrcBytes +
                                            wire::kVcrcBytes);
    network_.send(now, packet.from, sent);
}

void SubnetNetwork::describe(const VirtualPacket& packet, netsim::NodeIndex /*host*/,
                             wire::PacketView& view) const {
    const auto& came = static_cast<const LinkPacket&>(packet);
    view.is_ipv4 = false;
    view.has_grh = false;
    view.sl = came.sl;
    view.slid = came.slid;
    view.dlid = came.dlid;
    view.src_gid = wire::lid_gid(came.slid);
    view.dst_gid = wire::lid_gid(came.dlid);
}

PortReading SubnetNetwork::read(std::size_t port, TimeNs now) const {
    const netsim::IbPort& at = network_.port(places_[port].node, places_[port].port);
    const netsim::IbPortCounters& counters = at.counters();
    PortReading reading;
    reading.counters.tx_packets = counters.xmit_packets;
    reading.counters.tx_bytes = counters.xmit_data * 4 + counters.xmit_packets * netsim::kVcrcOctets;
    reading.counters.dropped = counters.xmit_discards + counters.xmit_constraint_errors;
    reading.counters.most_bytes = at.most_waiting_bytes();
    reading.queue_bytes = at.waiting_bytes();
    reading.xmit_wait_ns = at.xmit_wait_ns(now);
    return reading;
}

netsim::PortIndex SubnetNetwork::egress(netsim::NodeIndex node, netsim::NodeIndex to,
                                        const VirtualPath& /*path*/) const {
    return network_.switch_at(node)->linear().port(lids_[to]) - 1U;
}

trace::PortView SubnetNetwork::look(netsim::NodeIndex node, netsim::PortIndex port, TimeNs /*now*/) const {
    const netsim::IbPort& at = network_.port(node, static_cast<netsim::IbPortNumber>(port + 1));
    trace::PortView view;
    view.queue_bytes = at.waiting_bytes();
    view.discards = at.counters().xmit_discards + at.counters().xmit_constraint_errors;
    view.waits_since = at.waits_since();
    return view;
}

// A host takes what comes at once: nothing here is a receiver that cannot keep up.
void SubnetNetwork::deliver(TimeNs now, netsim::NodeIndex host, netsim::IbNetworkPacket& packet) {
    network_.consume(now, host, packet);
    listener_.deliver(now, host, static_cast<LinkPacket&>(packet));
}

void SubnetNetwork::drop(TimeNs /*now*/, netsim::NodeIndex /*at*/, netsim::IbNetworkPacket& packet) {
    listener_.dropped();
    packets_.give_back(static_cast<LinkPacket&>(packet));
}

// No QP names the LID of a switch.
void SubnetNetwork::to_management(TimeNs now, netsim::NodeIndex at, netsim::IbPortNumber /*ingress*/,
                                  netsim::IbNetworkPacket& packet) {
    drop(now, at, packet);
}

// No QP names the LID of a group.
netsim::IbNetworkPacket* SubnetNetwork::copy(const netsim::IbNetworkPacket& /*packet*/) { return nullptr; }

}  // namespace urnic::experiment
