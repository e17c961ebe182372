// A network with rates, queues and marks on the in-process wire: what the RNICs of one fabric send goes
// through the switches of a topology (netsim/network), in real time, before the wire delivers it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/port/timed_port.h"
#include "netsim/infiniband/ib_port.h"
#include "netsim/network/network.h"

struct rte_mempool;

namespace urnic::dataplane {

class InProcessSwitch;
class WorkerHandoff;

/// What the switch of an emulated wire does with frames to one RNIC, and what that RNIC has sent.
struct NetworkPortView {
    netsim::SwitchPortCounters counters;
    std::uint64_t queue_bytes = 0;
    std::uint64_t sent_packets = 0;
    std::uint64_t sent_bytes = 0;
    // Of InfiniBand.
    netsim::IbPortState state = netsim::IbPortState::kDown;
    netsim::IbPortCounters infiniband;
};

/// One fabric's. Runs on worker 0 alone, whatever worker sends; others hand their frames to it by rings. Its
/// time is that of worker 0's QPs (StallFreeClock): a machine that keeps the worker from running slows the
/// network down with its RNICs, so that they behave to each other as on a faster machine.
class EmulatedNetwork {
  public:
    static constexpr std::uint32_t kFrames = 4096;

    struct Options {
        netsim::Topology topology;  // its hosts are the RNICs, in their order
        netsim::SwitchOptions switches;
        std::array<std::uint32_t, netsim::kPriorities> weights{};  // of every port
        std::uint64_t seed = 1;
        /// In the network at once. More are dropped; those of a lossless priority wait in their RNIC.
        std::uint32_t frames = kFrames;
        /// For the pause frames that RNICs get; nullptr: they get none, and only their ports obey.
        rte_mempool* pool = nullptr;
    };

    /// Throws SetupError: the packet memory is too small, or the topology has something wrong with it.
    EmulatedNetwork(const Options& options, InProcessSwitch& wire, std::uint32_t num_ports,
                    WorkerHandoff& handoff);
    ~EmulatedNetwork();
    EmulatedNetwork(const EmulatedNetwork&) = delete;
    EmulatedNetwork& operator=(const EmulatedNetwork&) = delete;

    /// In front of port i of the wire; lives as long as this does.
    [[nodiscard]] TimedPort& port(std::uint32_t index);

    /// Ports of switches to other switches, as "s1>s2".
    [[nodiscard]] const std::vector<std::string>& trunks() const;
    /// Of the switch's port to an RNIC; of trunks()[i] with the number of RNICs + i. On worker 0.
    [[nodiscard]] NetworkPortView view(std::uint32_t port) const;
    /// The switches' ports, numbered as for view(), by which a frame of the RNIC `port` goes whose front, up
    /// to the UDP header, is `headers`. Empty: it does not go through the network. On worker 0.
    [[nodiscard]] std::vector<std::uint32_t> way(std::uint32_t port,
                                                 std::span<const std::byte> headers) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace urnic::dataplane
