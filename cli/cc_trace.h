// `urnic cc trace`: the rates of QPs and the queues of emulated networks, over time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace urnic::cli {

struct TraceOptions {
    std::string file;                  // to write, NAME.json
    std::vector<std::string> targets;  // "DEVICE" or "DEVICE/QPN"; none: every QP
    double seconds = 10;               // how long
    double every_ms = 20;              // between two readings
};

/// Reads the daemon's figures until the time is over, the daemon ends, or SIGINT or SIGTERM comes. Writes
/// what `urnic experiment` writes of its runs: NAME-flows.csv and NAME-ports.csv with each reading, FILE at
/// the end. Throws LaunchError.
void trace_congestion(const std::filesystem::path& socket, const TraceOptions& options);

}  // namespace urnic::cli
