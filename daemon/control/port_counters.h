// The counters that every RDMA port has, under the names of ports/1/counters in sysfs
// (Documentation/ABI/stable/sysfs-class-infiniband, IBA 16.1.3.5), made from our own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dataplane/device/device.h"

namespace urnic::daemon {

/// The counters of rnic/device/counters.h by name, of all workers together.
[[nodiscard]] std::map<std::string, std::uint64_t> sum_counters(const dataplane::Device& device,
                                                                std::uint32_t num_workers);

struct PortCounter {
    const char* name;
    std::uint64_t value;
};

/// `sums`: of sum_counters(). What an Ethernet has nothing like
/// is 0, always.
[[nodiscard]] std::vector<PortCounter> port_counters(const std::map<std::string, std::uint64_t>& sums);

}  // namespace urnic::daemon
