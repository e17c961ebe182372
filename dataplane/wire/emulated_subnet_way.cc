// Which ports a packet of an emulated subnet passes, as the tables of its switches have it.
#include <algorithm>

#include "dataplane/wire/emulated_subnet.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

/// As EmulatedSubnet::view() numbers the port of a switch.
std::uint32_t number_of(const EmulatedSubnet& subnet, netsim::NodeIndex node, netsim::NodeIndex neighbour) {
    const netsim::Topology& topology = subnet.network().topology();
    const auto num_rnics = static_cast<std::uint32_t>(topology.hosts().size());
    if (topology.nodes[neighbour].is_host) {
        std::uint32_t rnic = 0;
        while (rnic < num_rnics && subnet.node_of(rnic) != neighbour) {
            ++rnic;
        }
        return rnic;
    }
    // Two switches have one link at most (netsim::problem_of).
    const auto& trunks = subnet.trunks();
    const auto trunk = std::find(trunks.begin(), trunks.end(),
                                 topology.nodes[node].name + ">" + topology.nodes[neighbour].name);
    return num_rnics + static_cast<std::uint32_t>(trunk - trunks.begin());
}

}  // namespace

std::vector<std::uint32_t> EmulatedSubnet::way(std::uint32_t port, std::span<const std::byte> headers) const {
    if (headers.size() < wire::kLrhBytes) {
        return {};
    }
    const netsim::Lid dlid = wire::peek_dlid(headers);
    const netsim::IbNetwork& network = this->network();
    const netsim::NodeIndex from = node_of(port);
    const std::uint8_t lmc = plan().lmcs[from];
    if (wire::is_multicast_lid(dlid) || dlid >> lmc == plan().lids[from] >> lmc) {
        return {};
    }
    std::vector<std::uint32_t> ports;
    netsim::NodeIndex node = network.routes().ports(from)[0].neighbour;
    // A subnet manager may have made a loop.
    while (ports.size() < network.topology().nodes.size()) {
        const netsim::IbSwitch* const at = network.switch_at(node);
        if (at == nullptr) {
            return ports;
        }
        const netsim::IbPortNumber out = at->linear().port(dlid);
        const auto of_node = network.routes().ports(node);
        if (out == 0 || out > of_node.size()) {
            return {};
        }
        const netsim::NodeIndex next = of_node[out - 1U].neighbour;
        ports.push_back(number_of(*this, node, next));
        node = next;
    }
    return {};
}

}  // namespace urnic::dataplane
