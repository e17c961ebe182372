// Hosts and switches joined by links, and what is wrong with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fraction.h"
#include "base/time.h"

namespace urnic::netsim {

using NodeIndex = std::uint32_t;
inline constexpr NodeIndex kNoNode = ~NodeIndex{0};

struct TopologyNode {
    std::string name;
    bool is_host = false;
};

/// The same rate and delay in both directions.
struct LinkSpec {
    BitsPerSecond rate = 0;
    TimeNs delay_ns = 0;
};

struct TopologyLink {
    NodeIndex a = kNoNode;
    NodeIndex b = kNoNode;
    LinkSpec spec;
};

struct Topology {
    std::vector<TopologyNode> nodes;
    std::vector<TopologyLink> links;

    NodeIndex add_host(std::string name);
    NodeIndex add_switch(std::string name);
    void connect(NodeIndex a, NodeIndex b, const LinkSpec& spec) { links.push_back({a, b, spec}); }
    /// kNoNode when there is none of that name.
    [[nodiscard]] NodeIndex find(std::string_view name) const;
    [[nodiscard]] std::vector<NodeIndex> hosts() const;
};

inline constexpr std::uint32_t kMaxNodes = 1024;
inline constexpr BitsPerSecond kMinLinkRate = 1'000'000;
inline constexpr TimeNs kMaxLinkDelayNs = 1'000'000'000;

/// What is wrong with a topology, in words; empty: nothing. Each host has one link, to a switch; every host
/// reaches every other; and the ways that frames take (Routes) do not go round in a circle, where paused
/// switches could wait for each other for ever (Dally and Seitz, 1987).
[[nodiscard]] std::string problem_of(const Topology& topology);

// --- Well-known ones. Hosts are h1, h2, ..., switches s1, s2, ... in the order in which they are named here.
/// Hosts around one switch.
[[nodiscard]] Topology star(std::uint32_t hosts, const LinkSpec& edge);
/// `pairs` hosts at s1, then as many at s2, and one link between the two.
[[nodiscard]] Topology dumbbell(std::uint32_t pairs, const LinkSpec& edge, const LinkSpec& trunk);
/// Switches in a row, each with so many hosts: those of s1 first.
[[nodiscard]] Topology parking_lot(std::uint32_t switches, std::uint32_t hosts_each, const LinkSpec& edge,
                                   const LinkSpec& trunk);
/// Leaves (s1 ...) with hosts, each joined to every spine (behind the leaves).
[[nodiscard]] Topology leaf_spine(std::uint32_t leaves, std::uint32_t spines, std::uint32_t hosts_each,
                                  const LinkSpec& edge, const LinkSpec& trunk);

}  // namespace urnic::netsim
