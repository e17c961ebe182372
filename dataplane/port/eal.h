// Starting DPDK's environment abstraction layer, with or without privileges.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "os/setup_error.h"

namespace urnic::dataplane {

struct EalConfig {
    bool hugepages = false;          // packet memory from hugepages (needs some reserved)
    std::vector<std::string> pci;    // PCI addresses of NICs to use; empty: PCI is left alone
    std::vector<std::string> vdevs;  // "net_memif0,role=server,..."
    std::uint32_t memory_mb = 64;    // packet memory, see packet_memory_mb()
    std::vector<std::string> extra;  // further arguments, as the administrator gives them
    std::string telemetry_dir;       // where rte_telemetry makes dpdk/urnic/ and its socket; empty: none
    bool verbose = false;            // EAL's log goes to stderr
};

/// Once in a process. Leaves the calling thread's CPU affinity as it was. Throws SetupError.
void start_eal(const EalConfig& config);

/// Runs `function` on the thread that the EAL has made, and waits for its end. Returns false when the EAL
/// does not take it.
[[nodiscard]] bool run_on_eal_thread(FunctionRef function);

/// The same on each thread of rte_telemetry's, which waits for somebody to connect: in the handler of a
/// signal. Returns false when one of them does not take it.
[[nodiscard]] bool run_on_telemetry_threads(FunctionRef function);

}  // namespace urnic::dataplane
