// What an experiment is: who sends what to whom, over which network, and by which rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "congestion/settings.h"
#include "netsim/infiniband/ib_network.h"
#include "netsim/network/network.h"
#include "netsim/topology/topology.h"

namespace urnic::experiment {

enum class Verb : std::uint8_t { kWrite, kRead };

/// Messages from one host's memory to another's. With READ it is `to` that asks.
struct FlowConfig {
    std::string name;
    std::string from;
    std::string to;
    Verb verb = Verb::kWrite;
    std::uint32_t message_bytes = 1U << 20U;
    std::uint64_t messages = 0;  // 0: without end
    std::uint32_t depth = 4;     // work requests posted at once
    TimeNs start_ns = 0;
    TimeNs stop_ns = kNever;            // no message begins after it
    std::uint16_t udp_source_port = 0;  // of Ethernet; 0: the RNIC chooses it
    std::uint8_t sl = 0;                // of InfiniBand
};

/// What differs from host to host.
struct HostConfig {
    std::string name;
    congestion::Settings settings;
};

struct RnicConfig {
    std::uint32_t mtu_bytes = 1024;
    bool selective_repeat = true;    // else go-back-N
    std::uint8_t timeout_code = 14;  // 4.096 us * 2^code
    std::uint8_t priority = 3;       // of all data, on Ethernet
};

enum class LinkLayer : std::uint8_t { kEthernet, kInfiniband };

struct ExperimentConfig {
    std::string name;
    std::uint64_t seed = 1;
    TimeNs duration_ns = 10'000'000;
    TimeNs warm_up_ns = 0;  // figures of the steady state begin here
    TimeNs sample_ns = 10'000;
    LinkLayer link_layer = LinkLayer::kEthernet;
    netsim::Topology topology;
    netsim::NetworkOptions fabric;    // of Ethernet
    netsim::IbNetworkOptions subnet;  // of InfiniBand
    RnicConfig rnic;
    std::vector<HostConfig> hosts;  // all of the topology, in its order
    std::vector<FlowConfig> flows;
    std::string fluid_port;  // "s1>h3": the fixed point is worked out for this port; empty: for none
};

inline constexpr std::size_t kMaxFlows = 4096;
inline constexpr std::uint64_t kMaxSamples = 1'000'000;

/// What is wrong with it, in words, with what is allowed; empty: nothing.
[[nodiscard]] std::string problem_of(const ExperimentConfig& config);

}  // namespace urnic::experiment
