// Starting DPDK's environment abstraction layer, with or without privileges.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace urnic::dataplane {

struct EalConfig {
    bool hugepages = false;          // packet memory from hugepages (needs some reserved)
    std::vector<std::string> pci;    // PCI addresses of NICs to use; empty: PCI is left alone
    std::vector<std::string> vdevs;  // "net_memif0,role=server,..."
    std::uint32_t memory_mb = 64;    // packet memory, see packet_memory_mb()
    std::vector<std::string> extra;  // further arguments, as the administrator gives them
    bool verbose = false;            // EAL's log goes to stderr
};

/// What went wrong when the EAL started or a port was set up; what() says what to do.
struct EalError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Once in a process. Leaves the calling thread's CPU affinity as it was. Throws EalError.
void start_eal(const EalConfig& config);

}  // namespace urnic::dataplane
