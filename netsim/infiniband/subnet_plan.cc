#include "netsim/infiniband/subnet_plan.h"

#include <algorithm>

namespace urnic::netsim {

namespace {

constexpr std::uint32_t kUnreached = ~0U;

bool is_switch(const IbNetwork& network, NodeIndex node) { return network.switch_at(node) != nullptr; }

/// Calls `visit(port, neighbour)` for each link of the node that is up. A host's counts as up: it has no
/// other way, and nobody computes routes again when it comes up.
template <typename Visit>
void for_each_link(const IbNetwork& network, NodeIndex node, const Visit& visit) {
    IbPortNumber number = 1;
    for (const TopologyPort& port : network.routes().ports(node)) {
        if (network.is_up(node, number) || !is_switch(network, node) || !is_switch(network, port.neighbour)) {
            visit(number, port.neighbour);
        }
        ++number;
    }
}

/// Links to `target` from each node; no way leads through a host.
std::vector<std::uint32_t> hops_to(const IbNetwork& network, NodeIndex target) {
    std::vector<std::uint32_t> hops(network.topology().nodes.size(), kUnreached);
    std::vector<NodeIndex> reached = {target};
    hops[target] = 0;
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const NodeIndex node = reached[i];
        if (node != target && !is_switch(network, node)) {
            continue;
        }
        for_each_link(network, node, [&](IbPortNumber /*port*/, NodeIndex there) {
            if (hops[there] == kUnreached) {
                hops[there] = hops[node] + 1;
                reached.push_back(there);
            }
        });
    }
    return hops;
}

/// The ports of a switch that lead to `target` by the fewest links.
std::vector<IbPortNumber> ways(const IbNetwork& network, NodeIndex node, NodeIndex target,
                               const std::vector<std::uint32_t>& hops) {
    std::vector<IbPortNumber> found;
    for_each_link(network, node, [&](IbPortNumber port, NodeIndex there) {
        const bool leads = there == target || is_switch(network, there);
        if (leads && hops[there] != kUnreached && hops[there] + 1 == hops[node]) {
            found.push_back(port);
        }
    });
    return found;
}

/// The ports of a spanning tree, by node, and which nodes they lead to.
struct Tree {
    explicit Tree(const IbNetwork& network) : ports(network.topology().nodes.size()) {
        const auto nodes = static_cast<NodeIndex>(ports.size());
        std::vector<bool> seen(nodes);
        for (NodeIndex root = 0; root < nodes; ++root) {  // more than one where links are down
            if (!seen[root] && is_switch(network, root)) {
                grow(network, root, seen);
            }
        }
    }
    struct Branch {
        IbPortNumber port = 0;
        NodeIndex there = kNoNode;
    };
    std::vector<std::vector<Branch>> ports;

    /// Marks what is behind the branch.
    void mark(NodeIndex node, const Branch& branch, std::vector<bool>& behind) const {
        std::vector<std::pair<NodeIndex, NodeIndex>> open = {{node, branch.there}};
        while (!open.empty()) {
            const auto [from, at] = open.back();
            open.pop_back();
            behind[at] = true;
            for (const Branch& next : ports[at]) {
                if (next.there != from) {
                    open.emplace_back(at, next.there);
                }
            }
        }
    }

  private:
    void grow(const IbNetwork& network, NodeIndex root, std::vector<bool>& seen) {
        std::vector<NodeIndex> reached = {root};
        seen[root] = true;
        for (std::size_t i = 0; i < reached.size(); ++i) {
            const NodeIndex node = reached[i];
            if (!is_switch(network, node)) {
                continue;
            }
            for_each_link(network, node, [&](IbPortNumber port, NodeIndex there) {
                if (seen[there]) {
                    return;
                }
                seen[there] = true;
                reached.push_back(there);
                ports[node].push_back({port, there});
                const TopologyPort& link = network.routes().ports(node)[port - 1U];
                ports[there].push_back({static_cast<IbPortNumber>(link.port_there + 1), node});
            });
        }
    }
};

}  // namespace

SubnetPlan make_subnet_plan(const Topology& topology, std::span<const Lid> host_lids, std::uint8_t lmc) {
    SubnetPlan plan;
    plan.lids.resize(topology.nodes.size());
    plan.lmcs.resize(topology.nodes.size());
    std::vector<bool> taken(kMulticastLids);
    taken[0] = true;
    const std::vector<NodeIndex> hosts = topology.hosts();
    for (std::size_t i = 0; i < hosts.size() && i < host_lids.size(); ++i) {
        plan.lids[hosts[i]] = host_lids[i];
        plan.lmcs[hosts[i]] = lmc;
        for (std::uint32_t lid = host_lids[i]; lid < host_lids[i] + (1U << lmc) && lid < taken.size();
             ++lid) {
            taken[lid] = true;
        }
    }
    std::uint32_t next = 1;
    for (NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        if (topology.nodes[node].is_host) {
            continue;
        }
        while (next < taken.size() && taken[next]) {
            ++next;
        }
        plan.lids[node] = static_cast<Lid>(next < taken.size() ? next++ : 0);
    }
    return plan;
}

LinearRoutes find_linear_routes(const IbNetwork& network, const SubnetPlan& plan) {
    const auto nodes = static_cast<NodeIndex>(plan.lids.size());
    std::uint32_t lids = 1;
    for (NodeIndex node = 0; node < nodes; ++node) {
        lids = std::max(lids, plan.lids[node] + (1U << plan.lmcs[node]));
    }
    LinearRoutes routes(nodes);
    for (NodeIndex node = 0; node < nodes; ++node) {
        if (is_switch(network, node)) {
            routes[node].resize(lids, kNoIbPort);
        }
    }
    std::uint32_t spread = 0;
    for (NodeIndex target = 0; target < nodes; ++target) {
        const std::vector<std::uint32_t> hops = hops_to(network, target);
        for (NodeIndex node = 0; plan.lids[target] != 0 && node < nodes; ++node) {
            if (!is_switch(network, node)) {
                continue;
            }
            const std::vector<IbPortNumber> ports =
                node == target ? std::vector<IbPortNumber>{0} : ways(network, node, target, hops);
            for (std::uint32_t path = 0; !ports.empty() && path < 1U << plan.lmcs[target]; ++path) {
                routes[node][plan.lids[target] + path] = ports[(spread + path) % ports.size()];
            }
        }
        spread += is_switch(network, target) ? 0 : 1;
    }
    return routes;
}

void set_linear_routes(IbNetwork& network, const SubnetPlan& plan, const LinearRoutes& routes) {
    for (NodeIndex node = 0; node < routes.size(); ++node) {
        IbSwitch* const at = network.switch_at(node);
        for (std::size_t lid = 0; at != nullptr && lid < routes[node].size(); ++lid) {
            at->linear().set(static_cast<Lid>(lid), routes[node][lid]);
        }
        if (at != nullptr) {
            at->info().lid = plan.lids[node];
            at->info().lmc = 0;
        }
    }
}

MulticastRoutes find_multicast_routes(const IbNetwork& network, std::span<const NodeIndex> members) {
    const Tree tree(network);
    MulticastRoutes routes(tree.ports.size());
    for (NodeIndex node = 0; node < tree.ports.size(); ++node) {
        for (const Tree::Branch& branch : tree.ports[node]) {
            std::vector<bool> behind(tree.ports.size());
            tree.mark(node, branch, behind);
            if (is_switch(network, node) && std::any_of(members.begin(), members.end(),
                                                        [&](NodeIndex member) { return behind[member]; })) {
                routes[node].set(branch.port);
            }
        }
    }
    return routes;
}

void set_multicast_routes(IbNetwork& network, Lid mlid, const MulticastRoutes& routes) {
    for (NodeIndex node = 0; node < routes.size(); ++node) {
        if (IbSwitch* const at = network.switch_at(node)) {
            at->multicast().set(mlid, routes[node]);
        }
    }
}

void activate_ports(IbNetwork& network, TimeNs now) {
    for (NodeIndex node = 0; node < network.topology().nodes.size(); ++node) {
        for_each_link(network, node, [&](IbPortNumber port, NodeIndex /*there*/) {
            (void)network.set_state(now, node, port, IbPortState::kArmed);
            (void)network.set_state(now, node, port, IbPortState::kActive);
        });
    }
}

}  // namespace urnic::netsim
