// The RNICs of a configuration: devices, the ports they send through, the wires between them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/config.h"
#include "dataplane/device.h"
#include "dataplane/dpdk_port.h"
#include "dataplane/fabric.h"
#include "dataplane/neighbour_table.h"
#include "dataplane/steering.h"

namespace urnic::dataplane {

/// Made after the EAL, before the workers; outlives them.
class DeviceSet {
  public:
    /// Throws EalError: a port that is not there or refuses.
    DeviceSet(const Config& config, Steering& steering, rte_mempool* frames);

    [[nodiscard]] std::vector<Device*> devices() const;

  private:
    void add_device(const RnicConfig& rnic, std::uint32_t index);
    void add_fabrics(const Config& config, Steering& steering);
    void add_port(Device& device, const RnicConfig& rnic, std::uint32_t num_workers, rte_mempool* frames);

    std::map<std::string, std::unique_ptr<Fabric>> fabrics_;
    std::vector<std::unique_ptr<DpdkPort>> ports_;
    NeighbourTable neighbours_;
    std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace urnic::dataplane
