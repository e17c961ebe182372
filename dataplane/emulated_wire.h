// A network with rates, queues and marks on the in-process wire: what the RNICs of one fabric send goes
// through the switches of a topology (congestion/fabric), in real time, before the wire delivers it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "congestion/fabric/fabric.h"
#include "dataplane/host.h"
#include "dataplane/timed_port.h"

struct rte_ring;

namespace urnic::dataplane {

class Fabric;
class Steering;

/// One fabric's. Runs on worker 0 alone, whatever worker sends; others hand their frames to it by rings. Its
/// time is that of worker 0's QPs (AttendedTime): a machine that keeps the worker from running slows the
/// network down with its RNICs, and what goes on between them stays as it would be on a faster one.
class EmulatedWire {
  public:
    static constexpr std::uint32_t kFrames = 4096;

    struct Options {
        congestion::LinkSpec link;  // of each RNIC
        congestion::SwitchOptions switches;
        std::uint64_t seed = 1;
        std::uint32_t frames = kFrames;  // in the network at once; more are dropped
    };

    /// RNICs around one switch. Throws EalError when the packet memory is too small.
    EmulatedWire(const Options& options, Fabric& wire, std::uint32_t num_ports, Steering& steering);
    ~EmulatedWire();
    EmulatedWire(const EmulatedWire&) = delete;
    EmulatedWire& operator=(const EmulatedWire&) = delete;

    /// In front of port i of the wire; lives as long as this does.
    [[nodiscard]] TimedPort& port(std::uint32_t index);

    /// On worker 0.
    [[nodiscard]] WirePortView view(std::uint32_t port) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace urnic::dataplane
