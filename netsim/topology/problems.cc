// What is wrong with a topology.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "netsim/topology/routes.h"
#include "netsim/topology/topology.h"

namespace urnic::netsim {

namespace {

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

std::string between(const Topology& topology, const TopologyLink& link) {
    return "the link between " + quoted(topology.nodes[link.a].name) + " and " +
           quoted(topology.nodes[link.b].name);
}

std::string problem_of_nodes(const Topology& topology) {
    if (topology.nodes.size() > kMaxNodes) {
        return std::to_string(topology.nodes.size()) + " hosts and switches: there may be " +
               std::to_string(kMaxNodes);
    }
    if (topology.hosts().size() < 2) {
        return "a topology has two hosts or more, this one " + std::to_string(topology.hosts().size());
    }
    std::unordered_set<std::string> names;
    for (const TopologyNode& node : topology.nodes) {
        if (node.name.empty()) {
            return "a host or a switch has no name";
        }
        if (!names.insert(node.name).second) {
            return "two nodes are called " + quoted(node.name) + "; give each its own name";
        }
    }
    return {};
}

std::string problem_of_link(const Topology& topology, const TopologyLink& link) {
    if (link.a >= topology.nodes.size() || link.b >= topology.nodes.size()) {
        return "a link leads to a node that does not exist";
    }
    if (link.a == link.b) {
        return quoted(topology.nodes[link.a].name) + " has a link to itself, which is a loop; take it out";
    }
    if (topology.nodes[link.a].is_host && topology.nodes[link.b].is_host) {
        return between(topology, link) + " joins two hosts; put a switch between them";
    }
    if (link.spec.rate < kMinLinkRate || link.spec.rate > kMaxRate) {
        return between(topology, link) + " has a rate of " + std::to_string(link.spec.rate) +
               " bit/s; allowed are " + std::to_string(kMinLinkRate) + " to " + std::to_string(kMaxRate);
    }
    if (link.spec.delay_ns > kMaxLinkDelayNs) {
        return between(topology, link) + " has a delay of " + std::to_string(link.spec.delay_ns) +
               " ns; allowed are 0 to " + std::to_string(kMaxLinkDelayNs);
    }
    return {};
}

std::string problem_of_links(const Topology& topology) {
    std::set<std::pair<NodeIndex, NodeIndex>> seen;
    for (const TopologyLink& link : topology.links) {
        if (std::string problem = problem_of_link(topology, link); !problem.empty()) {
            return problem;
        }
        if (!seen.insert(std::minmax(link.a, link.b)).second) {
            return between(topology, link) +
                   " is there twice, which is a loop; give one link of the sum of the rates";
        }
    }
    return {};
}

std::string problem_of_hosts(const Topology& topology, const Routes& routes) {
    const std::vector<NodeIndex> hosts = topology.hosts();
    for (const NodeIndex host : hosts) {
        const std::size_t links = routes.ports(host).size();
        if (links != 1) {
            return "host " + quoted(topology.nodes[host].name) + " has " +
                   (links == 0 ? "no link; join it to a switch"
                               : std::to_string(links) + " links; a host has one, to a switch");
        }
        if (host != hosts[0] && routes.next(hosts[0], host).empty()) {
            return "there is no way from host " + quoted(topology.nodes[hosts[0]].name) + " to host " +
                   quoted(topology.nodes[host].name) + ": a link between switches is missing";
        }
    }
    return {};
}

// Directed links, as bits of what one may wait for when the switch behind it is full: a circle among them can
// stand still for ever.
class Waits {
  public:
    Waits(const Topology& topology, const Routes& routes) : topology_(topology), routes_(routes) {
        for (NodeIndex node = 0; node < topology.nodes.size(); ++node) {
            first_.push_back(size_);
            size_ += static_cast<std::uint32_t>(routes.ports(node).size());
        }
        marks_.resize(size_, Mark::kNew);
        behind_.resize(size_);
        for (const NodeIndex host : topology.hosts()) {
            for (NodeIndex node = 0; node < topology.nodes.size(); ++node) {
                add(node, host);
            }
        }
    }

    /// Names of switches round a circle; empty: there is none.
    [[nodiscard]] std::string circle() {
        for (NodeIndex node = 0; node < topology_.nodes.size(); ++node) {
            for (std::uint32_t port = 0; port < routes_.ports(node).size(); ++port) {
                if (marks_[first_[node] + port] == Mark::kNew && closes(node, port)) {
                    return text_;
                }
            }
        }
        return {};
    }

  private:
    enum class Mark : std::uint8_t { kNew, kOpen, kDone };
    struct Step {
        NodeIndex node;
        std::uint32_t port;
        bool operator==(const Step&) const = default;
    };

    void add(NodeIndex node, NodeIndex host) {
        for (const PortIndex port : routes_.next(node, host)) {
            const NodeIndex there = routes_.ports(node)[port].neighbour;
            for (const PortIndex onward : routes_.next(there, host)) {
                std::vector<Step>& list = behind_[first_[node] + port];
                const Step step{there, onward};
                if (std::find(list.begin(), list.end(), step) == list.end()) {
                    list.push_back(step);
                }
            }
        }
    }

    // Depth first: what is met again while it is open closes a circle.
    bool closes(NodeIndex node, std::uint32_t port) {
        Mark& mark = marks_[first_[node] + port];
        if (mark != Mark::kNew) {
            if (mark == Mark::kOpen) {
                text_ = topology_.nodes[node].name;
            }
            return mark == Mark::kOpen;
        }
        mark = Mark::kOpen;
        for (const Step& step : behind_[first_[node] + port]) {
            if (closes(step.node, step.port)) {
                text_ = topology_.nodes[node].name + " > " + text_;
                return true;
            }
        }
        mark = Mark::kDone;
        return false;
    }

    const Topology& topology_;
    const Routes& routes_;
    std::uint32_t size_ = 0;
    std::vector<std::uint32_t> first_;
    std::vector<Mark> marks_;
    std::vector<std::vector<Step>> behind_;
    std::string text_;
};

}  // namespace

std::string problem_of(const Topology& topology) {
    std::string problem = problem_of_nodes(topology);
    if (problem.empty()) {
        problem = problem_of_links(topology);
    }
    if (!problem.empty()) {
        return problem;
    }
    const Routes routes(topology);
    problem = problem_of_hosts(topology, routes);
    if (problem.empty()) {
        const std::string circle = Waits(topology, routes).circle();
        if (!circle.empty()) {
            problem = "the ways of frames form a loop over " + circle +
                      ", where paused switches would wait for each other for ever; take a link out of it";
        }
    }
    return problem;
}

}  // namespace urnic::netsim
