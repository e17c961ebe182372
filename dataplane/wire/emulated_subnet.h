// An emulated network whose link layer is InfiniBand: what the RNICs of one fabric send goes through the
// switches of a topology (netsim/infiniband), in real time, before it is delivered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dataplane/port/timed_port.h"
#include "dataplane/wire/emulated_network.h"
#include "netsim/infiniband/ib_network.h"
#include "netsim/infiniband/subnet_plan.h"

struct rte_mempool;

namespace urnic::dataplane {

class InProcessSwitch;
class KeyViolationInbox;
class WorkerHandoff;

/// One fabric's. Runs on worker 0 alone, as EmulatedNetwork does, and in the same time. Where nothing else is
/// said, functions are for worker 0.
class EmulatedSubnet {
  public:
    struct Options {
        netsim::Topology topology;  // its hosts are the RNICs, in their order
        netsim::IbNetworkOptions network;
        std::vector<netsim::Lid> lids;  // of the RNICs: multiples of 2^lmc
        std::uint8_t lmc = 0;
        /// In the network at once; beyond that they wait in their RNIC.
        std::uint32_t frames = EmulatedNetwork::kFrames;
        /// A subnet manager rules it: switches begin without routes, ports stay in Init, and `lids` are 0.
        bool has_external_sm = false;
        rte_mempool* pool = nullptr;  // for copies of frames that several RNICs get on different VLs
    };

    /// Throws SetupError: the packet memory is too small, or the topology has something wrong with it.
    EmulatedSubnet(const Options& options, InProcessSwitch& wire, WorkerHandoff& handoff);
    ~EmulatedSubnet();
    EmulatedSubnet(const EmulatedSubnet&) = delete;
    EmulatedSubnet& operator=(const EmulatedSubnet&) = delete;

    /// The RNIC's port; lives as long as this does.
    [[nodiscard]] TimedPort& port(std::uint32_t index);

    /// Ports of switches to other switches, as "s1>s2".
    [[nodiscard]] const std::vector<std::string>& trunks() const;
    /// Of the switch's port to an RNIC; of trunks()[i] with the number of RNICs + i.
    [[nodiscard]] NetworkPortView view(std::uint32_t port) const;
    /// The switches' ports, numbered as for view(), by which a packet of the RNIC `port` goes whose front, an
    /// LRH at least, is `headers`. Empty: it does not go through the network, or to nobody.
    [[nodiscard]] std::vector<std::uint32_t> way(std::uint32_t port,
                                                 std::span<const std::byte> headers) const;

    /// Takes the link of an RNIC, or of a trunk, down or up; ports are numbered as for view(). Nobody manages
    /// the subnet: the ports of a link that comes up are Active at once.
    void set_link(std::uint32_t port, bool up);

    /// For who plans routes; on the control thread, which is also the only one that calls set_link().
    [[nodiscard]] const netsim::IbNetwork& network() const;
    [[nodiscard]] const netsim::SubnetPlan& plan() const;
    [[nodiscard]] netsim::NodeIndex node_of(std::uint32_t rnic) const;
    /// Fills the tables of the switches.
    void set_linear_routes(const netsim::LinearRoutes& routes);
    void set_multicast_routes(netsim::Lid mlid, const netsim::MulticastRoutes& routes);

    // --- For a subnet manager.
    [[nodiscard]] bool has_external_sm() const;
    /// In the order of the topology.
    [[nodiscard]] const std::vector<netsim::NodeIndex>& switches() const;
    void set_linear(netsim::NodeIndex at, netsim::Lid first, std::span<const std::uint8_t> ports);
    void set_multicast(netsim::NodeIndex at, netsim::Lid first,
                       std::span<const netsim::MulticastForwardingTable::Ports> ports);
    /// Down disables the port, and Init, where it was beyond, trains its link anew.
    void set_state(netsim::NodeIndex node, netsim::IbPortNumber port, netsim::IbPortState state);
    void set_lid(std::uint32_t rnic, netsim::Lid lid, std::uint8_t lmc);
    /// What PortInfo says of a port beside its state.
    struct PortSettings {
        std::uint8_t operational_vls = 1;
        bool enforces_pkey_in = false;
        bool enforces_pkey_out = false;
    };
    void set_port(netsim::NodeIndex node, netsim::IbPortNumber port, const PortSettings& settings);
    /// The P_Keys that a switch's port enforces; those that it had until now come back, and are for the
    /// caller to free.
    void exchange_pkeys(netsim::NodeIndex at, netsim::IbPortNumber port, std::vector<std::uint16_t>& pkeys);
    using SlToVl = std::array<std::uint8_t, netsim::kSls>;
    /// Of packets that come by `in` and leave by `out`; of an RNIC, which has one port, of those that it
    /// sends.
    void set_sl_to_vl(netsim::NodeIndex node, netsim::IbPortNumber in, netsim::IbPortNumber out,
                      const SlToVl& vls);
    struct VlArbitration {
        netsim::VlArbiter::Table high{};
        netsim::VlArbiter::Table low{};
        std::uint8_t high_limit = 0;
    };
    void set_vl_arbitration(netsim::NodeIndex node, netsim::IbPortNumber port, const VlArbitration& wanted);
    /// Where a switch tells of packets with P_Keys that its ports do not let pass, by trap 259; for the
    /// control thread. A subnet manager rules the subnet.
    [[nodiscard]] KeyViolationInbox& pkey_violations(netsim::NodeIndex at);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace urnic::dataplane
