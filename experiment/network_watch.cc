#include "experiment/network_watch.h"

namespace urnic::experiment {

NetworkWatch::NetworkWatch(const ExperimentConfig& config, const VirtualNetwork& network,
                           trace::NetworkTrace& trace)
    : config_(config), network_(network), trace_(trace), routes_(config.topology) {
    const netsim::Topology& topology = config.topology;
    std::size_t ports = 0;
    for (netsim::NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        first_.push_back(ports);
        for (const netsim::TopologyPort& port : routes_.ports(node)) {
            const netsim::LinkSpec& spec = topology.links[port.link].spec;
            trace::NetworkPort made;
            made.node = topology.nodes[node].name;
            made.is_host = topology.nodes[node].is_host;
            made.neighbour = topology.nodes[port.neighbour].name;
            // Two nodes have one link at most (netsim::problem_of).
            made.name = made.node + ">" + made.neighbour;
            made.is_infiniband = config.link_layer == LinkLayer::kInfiniband;
            made.bits_per_s = spec.rate;
            made.delay_ns = spec.delay_ns;
            trace_.add_port(0, made);
            ++ports;
        }
    }
}

void NetworkWatch::add_path(const PathOfQp& path) {
    trace::NetworkPath made;
    made.qp = path.qp;
    made.peer = path.peer;
    made.flow = path.flow.name;
    made.has_payload = path.has_payload;
    made.is_infiniband = config_.link_layer == LinkLayer::kInfiniband;
    made.level = made.is_infiniband ? path.flow.sl : config_.rnic.priority;
    netsim::NodeIndex node = path.from;
    netsim::PortIndex port = 0;
    // Shortest paths pass no node twice.
    while (made.ports.size() < config_.topology.nodes.size()) {
        made.ports.push_back(first_[node] + port);
        node = routes_.ports(node)[port].neighbour;
        if (node == path.to) break;
        port = network_.egress(node, path.to, path.path);
    }
    trace_.add_path(0, made);
}

void NetworkWatch::look(TimeNs now, netsim::NodeIndex node) {
    const std::size_t ports = routes_.ports(node).size();
    for (netsim::PortIndex port = 0; port < ports; ++port) {
        trace_.look(now, first_[node] + port, network_.look(node, port, now));
    }
}

}  // namespace urnic::experiment
