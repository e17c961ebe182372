// The ways of frames through a topology: all shortest ones, and which of them a flow takes (ECMP).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "netsim/switch/switched_packet.h"
#include "netsim/topology/topology.h"

namespace urnic::netsim {

/// One end of a link: the links of a node are its ports, in the order of the topology's list.
struct TopologyPort {
    NodeIndex neighbour = kNoNode;
    std::uint32_t link = 0;
    PortIndex port_there = 0;  // the neighbour's number for it
};

class Routes {
  public:
    /// Links that lead nowhere are left out.
    explicit Routes(const Topology& topology);

    [[nodiscard]] std::span<const TopologyPort> ports(NodeIndex node) const { return ports_[node]; }
    /// The ports of `node` that lead to `host` in the fewest hops; empty: it cannot be reached, or is the
    /// node.
    [[nodiscard]] std::span<const PortIndex> next(NodeIndex node, NodeIndex host) const {
        const Range range = next_[std::size_t{node} * num_nodes_ + host];
        return {choices_.data() + range.first, range.count};
    }

  private:
    struct Range {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
    };
    void find_ways_to(const Topology& topology, NodeIndex host);

    std::size_t num_nodes_;
    std::vector<std::vector<TopologyPort>> ports_;
    std::vector<Range> next_;
    std::vector<PortIndex> choices_;
};

/// What switches look at to keep a flow on one way.
struct FlowKey {
    std::array<std::uint8_t, 16> source{};  // IPv4 addresses mapped, as in GIDs
    std::array<std::uint8_t, 16> destination{};
    std::uint8_t protocol = 17;
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
};

[[nodiscard]] std::uint64_t flow_hash(const FlowKey& key);
/// Which of `choices` (not 0) equal ways the switch `at` takes. Switches choose independently of each other;
/// another `seed` gives another choice.
[[nodiscard]] std::uint32_t ecmp_choice(std::uint64_t hash, NodeIndex at, std::uint64_t seed,
                                        std::uint32_t choices);

}  // namespace urnic::netsim
