// Assembles the RNICs of a configuration: devices, the ports they send through, the networks between them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/neighbour/kernel_network.h"
#include "daemon/neighbour/membership_reports.h"
#include "daemon/neighbour/static_neighbours.h"
#include "daemon/neighbour/userspace_network.h"
#include "daemon/state/control_state.h"
#include "daemon/state/subnet_routes.h"
#include "daemon/subnet/subnet_service.h"
#include "dataplane/device/device.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/port/kernel/kernel_port.h"
#include "dataplane/port/prefetch_port.h"
#include "dataplane/wire/emulated_network.h"
#include "dataplane/wire/emulated_subnet.h"
#include "dataplane/wire/hairpin_port.h"
#include "dataplane/wire/in_process_switch.h"

namespace urnic::daemon {

/// What the EAL is asked for to get the memif port of the RNIC with that index.
[[nodiscard]] std::string memif_arguments(const RnicConfig& rnic, std::uint32_t index);
/// How DPDK calls the port of an RNIC (kPci, kVdev, kMemif).
[[nodiscard]] std::string dpdk_name(const RnicConfig& rnic, std::uint32_t index);

/// Made after the EAL, before the workers; outlives them.
class Assembly {
  public:
    /// Throws SetupError: a port that is not there or refuses.
    Assembly(const Config& config, dataplane::WorkerHandoff& handoff, rte_mempool* frames);

    [[nodiscard]] std::vector<dataplane::Device*> devices() const;
    /// Lists the fabrics and the emulated networks, for status.
    void list_networks(ControlState& control) const;
    /// Has the switches of emulated subnets follow the groups of their RNICs. `control` has these devices.
    void route_groups(ControlState& control);

    /// The fabrics of InfiniBand, for who manages their subnets.
    [[nodiscard]] std::vector<InfinibandFabric> infiniband_fabrics(const ControlState& control) const;

    /// Runs `function` on each thread that ports have, one after the other.
    void run_on_port_threads(FunctionRef function) const;
    /// What happens to ports is reported from now on; see monitor_link(). `control` has these devices.
    void monitor_links(ControlState& control);
    /// What a worker has found out of its port since it was called last.
    void log_refusals() const;

  private:
    void add_device(const RnicConfig& rnic, std::uint32_t index);
    void add_fabrics(const Config& config, dataplane::WorkerHandoff& handoff, rte_mempool* frames);
    /// Says whether packets between the devices of a fabric need not be frames.
    static void offload(const Config& config, const std::vector<dataplane::Device*>& devices);
    /// Puts a network between the devices of a fabric, if the configuration has one for it.
    void emulate(const Config& config, const std::string& name, dataplane::InProcessSwitch& fabric,
                 const std::vector<dataplane::Device*>& devices, dataplane::WorkerHandoff& handoff,
                 rte_mempool* frames);
    /// The same of InfiniBand.
    void emulate_subnet(const NetworkConfig& network, dataplane::InProcessSwitch& fabric,
                        const std::vector<dataplane::Device*>& devices, dataplane::WorkerHandoff& handoff,
                        rte_mempool* frames);
    /// Opens the port of a device that is on no fabric.
    void open_port(dataplane::Device& device, const RnicConfig& rnic, std::uint32_t num_workers,
                   rte_mempool* frames);
    void open_kernel_port(dataplane::Device& device, const RnicConfig& rnic, std::uint32_t num_workers,
                          rte_mempool* frames);
    /// Gives each RNIC on a real port what finds its neighbours.
    void add_networks(const Config& config);
    void report_groups(const RnicConfig& rnic, dataplane::Device& device);
    /// Connects the RNICs that share a port to each other.
    void add_hairpins(const Config& config, dataplane::WorkerHandoff& handoff);

    std::map<std::string, std::unique_ptr<dataplane::InProcessSwitch>> fabrics_;
    std::map<std::string, std::unique_ptr<dataplane::EmulatedNetwork>> emulated_;  // before those fabrics
    std::map<std::string, std::unique_ptr<dataplane::EmulatedSubnet>> subnets_;    // the same
    std::map<std::string, std::uint8_t> idle_hosts_;                               // of those
    std::vector<std::unique_ptr<SubnetRoutes>> subnet_routes_;
    std::map<std::uint32_t, std::string> fabric_of_;                                // by Device::index
    std::map<std::uint32_t, std::unique_ptr<dataplane::DpdkPort>> dpdk_ports_;      // by Device::index
    std::map<std::uint32_t, std::unique_ptr<dataplane::KernelPort>> kernel_ports_;  // by Device::index
    std::vector<std::unique_ptr<dataplane::PrefetchPort>> prefetch_ports_;          // on some of those
    std::vector<std::unique_ptr<dataplane::HairpinPort>> hairpins_;
    std::unique_ptr<StaticNeighbours> neighbours_;
    std::vector<std::unique_ptr<dataplane::Device>> devices_;
    std::map<std::uint32_t, std::unique_ptr<UserspaceNetwork>> userspace_networks_;  // by Device::index
    std::map<std::uint32_t, std::unique_ptr<KernelNetwork>> kernel_networks_;        // the same
    std::map<std::uint32_t, std::unique_ptr<MembershipReports>> membership_reports_;
};

}  // namespace urnic::daemon
