// The counters that every RDMA port has, under the names of ports/1/counters in sysfs
// (Documentation/ABI/stable/sysfs-class-infiniband, IBA 16.1.3.5), made from our own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace urnic::dataplane {

struct PortCounter {
    const char* name;
    std::uint64_t value;
};

/// `sums`: the counters of rnic/device/counters.h, of all workers together. What an Ethernet has nothing like
/// is 0, always.
[[nodiscard]] std::vector<PortCounter> port_counters(const std::map<std::string, std::uint64_t>& sums);

}  // namespace urnic::dataplane
