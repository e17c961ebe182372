#include "netsim/topology/topology.h"

#include <algorithm>

namespace urnic::netsim {

NodeIndex Topology::add_host(std::string name) {
    nodes.push_back({std::move(name), true});
    return static_cast<NodeIndex>(nodes.size() - 1);
}

NodeIndex Topology::add_switch(std::string name) {
    nodes.push_back({std::move(name), false});
    return static_cast<NodeIndex>(nodes.size() - 1);
}

NodeIndex Topology::find(std::string_view name) const {
    const auto found = std::find_if(nodes.begin(), nodes.end(),
                                    [name](const TopologyNode& node) { return node.name == name; });
    return found == nodes.end() ? kNoNode : static_cast<NodeIndex>(found - nodes.begin());
}

std::vector<NodeIndex> Topology::hosts() const {
    std::vector<NodeIndex> found;
    for (NodeIndex node = 0; node < nodes.size(); ++node) {
        if (nodes[node].is_host) {
            found.push_back(node);
        }
    }
    return found;
}

namespace {

// Not "h" + std::to_string(1): GCC 12 warns of that at -O3, wrongly.
std::string numbered(char letter, std::uint32_t number) {
    std::string name(1, letter);
    name += std::to_string(number);
    return name;
}

// The hosts of `at`, numbered on from those that are there.
void add_hosts(Topology& topology, NodeIndex at, std::uint32_t count, const LinkSpec& edge) {
    const auto first = static_cast<std::uint32_t>(topology.hosts().size());
    for (std::uint32_t i = 1; i <= count; ++i) {
        topology.connect(topology.add_host(numbered('h', first + i)), at, edge);
    }
}

void add_switches(Topology& topology, std::uint32_t count) {
    for (std::uint32_t i = 1; i <= count; ++i) {
        (void)topology.add_switch(numbered('s', i));
    }
}

}  // namespace

Topology star(std::uint32_t hosts, const LinkSpec& edge) { return parking_lot(1, hosts, edge, edge); }

Topology dumbbell(std::uint32_t pairs, const LinkSpec& edge, const LinkSpec& trunk) {
    return parking_lot(2, pairs, edge, trunk);
}

Topology parking_lot(std::uint32_t switches, std::uint32_t hosts_each, const LinkSpec& edge,
                     const LinkSpec& trunk) {
    Topology topology;
    add_switches(topology, switches);
    for (std::uint32_t i = 0; i < switches; ++i) {
        add_hosts(topology, i, hosts_each, edge);
        if (i != 0) {
            topology.connect(i - 1, i, trunk);
        }
    }
    return topology;
}

Topology leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_each,
                    const LinkSpec& edge, const LinkSpec& trunk) {
    Topology topology;
    add_switches(topology, leaves + spines);
    for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
        add_hosts(topology, leaf, hosts_each, edge);
        for (std::uint32_t spine = leaves; spine < leaves + spines; ++spine) {
            topology.connect(leaf, spine, trunk);
        }
    }
    return topology;
}

}  // namespace urnic::netsim
