#include "netsim/topology/routes.h"

#include <algorithm>

namespace urnic::netsim {

namespace {

// The mixing step of SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d0'49bb'1331'11ebULL;
    return z ^ (z >> 31U);
}

std::uint64_t mix_bytes(std::uint64_t hash, std::span<const std::uint8_t> bytes) {
    for (const std::uint8_t byte : bytes) {
        hash = (hash ^ byte) * 0x100'0000'01b3ULL;  // FNV-1a
    }
    return hash;
}

}  // namespace

Routes::Routes(const Topology& topology)
    : num_nodes_(topology.nodes.size()), ports_(num_nodes_), next_(num_nodes_ * num_nodes_) {
    for (std::uint32_t index = 0; index < topology.links.size(); ++index) {
        const TopologyLink& link = topology.links[index];
        if (link.a >= num_nodes_ || link.b >= num_nodes_ || link.a == link.b) {
            continue;
        }
        const auto port_a = static_cast<PortIndex>(ports_[link.a].size());
        const auto port_b = static_cast<PortIndex>(ports_[link.b].size());
        ports_[link.a].push_back({link.b, index, port_b});
        ports_[link.b].push_back({link.a, index, port_a});
    }
    for (NodeIndex node = 0; node < num_nodes_; ++node) {
        if (topology.nodes[node].is_host) {
            find_ways_to(topology, node);
        }
    }
}

// Breadth first from the host; no way leads through another host.
void Routes::find_ways_to(const Topology& topology, NodeIndex host) {
    constexpr std::uint32_t kUnknown = ~0U;
    std::vector<std::uint32_t> hops(num_nodes_, kUnknown);
    std::vector<NodeIndex> reached = {host};
    hops[host] = 0;
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const NodeIndex node = reached[i];
        if (topology.nodes[node].is_host && node != host) {
            continue;
        }
        for (const TopologyPort& port : ports_[node]) {
            if (hops[port.neighbour] == kUnknown) {
                hops[port.neighbour] = hops[node] + 1;
                reached.push_back(port.neighbour);
            }
        }
    }
    for (const NodeIndex node : reached) {
        Range& range = next_[std::size_t{node} * num_nodes_ + host];
        range.first = static_cast<std::uint32_t>(choices_.size());
        PortIndex number = 0;
        for (const TopologyPort& each : ports_[node]) {
            const PortIndex port = number++;
            const NodeIndex there = each.neighbour;
            const bool leads = there == host || !topology.nodes[there].is_host;
            if (leads && hops[there] != kUnknown && hops[there] + 1 == hops[node]) {
                choices_.push_back(port);
            }
        }
        range.count = static_cast<std::uint32_t>(choices_.size()) - range.first;
    }
}

std::uint64_t flow_hash(const FlowKey& key) {
    std::uint64_t hash = mix_bytes(0xcbf2'9ce4'8422'2325ULL, key.source);
    hash = mix_bytes(hash, key.destination);
    const std::uint64_t ports =
        std::uint64_t{key.protocol} << 32U | std::uint64_t{key.source_port} << 16U | key.destination_port;
    return mix(hash ^ mix(ports));
}

std::uint32_t ecmp_choice(std::uint64_t hash, NodeIndex at, std::uint64_t seed, std::uint32_t choices) {
    const std::uint64_t mixed = mix(hash ^ mix((seed << 16U) + at + 1));
    return static_cast<std::uint32_t>((mixed >> 32U) * choices >> 32U);
}

}  // namespace urnic::netsim
