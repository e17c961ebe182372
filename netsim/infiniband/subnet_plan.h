// What a subnet has while nobody manages it: LIDs in order, shortest paths, one spanning tree for multicast,
// and ports that are Active as soon as their links are up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "netsim/infiniband/ib_network.h"

namespace urnic::netsim {

struct SubnetPlan {
    std::vector<Lid> lids;           // base LID by node: multiples of 2^lmc for hosts, any for switches
    std::vector<std::uint8_t> lmcs;  // by node; of switches 0
};

/// Gives switches the lowest LIDs that no host has. `host_lids` by host, in the order of topology.hosts();
/// none are 0.
[[nodiscard]] SubnetPlan make_subnet_plan(const Topology& topology, std::span<const Lid> host_lids,
                                          std::uint8_t lmc);

// --- Finding allocates and changes nothing; setting does not allocate, and is for whoever runs the network.

/// By node, and for each switch by LID: where packets to the LID leave.
using LinearRoutes = std::vector<std::vector<IbPortNumber>>;
/// Shortest ways over links that are up. The LIDs of all hosts are spread over ways that are equally short,
/// and so are those of one host.
[[nodiscard]] LinearRoutes find_linear_routes(const IbNetwork& network, const SubnetPlan& plan);
/// Fills the linear tables, and gives the switches their LIDs.
void set_linear_routes(IbNetwork& network, const SubnetPlan& plan, const LinearRoutes& routes);

/// By node: where a switch sends packets of a multicast LID.
using MulticastRoutes = std::vector<MulticastForwardingTable::Ports>;
/// Along one spanning tree of the links that are up, to hosts that are members and to no others. The tree is
/// the same for all groups, so they wait for each other in no circle.
[[nodiscard]] MulticastRoutes find_multicast_routes(const IbNetwork& network,
                                                    std::span<const NodeIndex> members);
void set_multicast_routes(IbNetwork& network, Lid mlid, const MulticastRoutes& routes);

/// Takes ports whose links are up and that are in Init or Armed to Active.
void activate_ports(IbNetwork& network, TimeNs now);

}  // namespace urnic::netsim
