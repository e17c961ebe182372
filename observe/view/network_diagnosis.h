// What a log says of the network's ports: how full, how long stopped, and in sentences what is wrong.
#pragma once

#include <cstddef>
#include <vector>

#include "observe/view/diagnosis.h"
#include "observe/view/event_log.h"

namespace urnic::view {

/// Of a port over the time of the trace.
struct PortFacts {
    double mean_bytes = 0;  // that waited
    double most_bytes = 0;
    double marks = 0;
    double drops = 0;
    double paused_ms = 0;  // the priority that was stopped longest:
    std::size_t paused_priority = 0;
    std::size_t flows = 0;  // whose payload goes by it
    double waited_ms = 0;   // for credit
    // Places in the port's events.
    std::vector<std::size_t> pauses;
    std::vector<std::size_t> waits;
    std::vector<std::size_t> places_of_marks;
    std::vector<std::size_t> places_of_drops;
    std::size_t fullest = 0;
};

/// Evidence is in the events of the port.
struct PortFinding {
    std::size_t port = 0;
    Finding finding;
};

struct NetworkDiagnosis {
    double span_ms = 0;  // of the trace
    std::vector<PortFacts> facts;
    /// The worst first.
    std::vector<PortFinding> findings;
};

[[nodiscard]] NetworkDiagnosis diagnose_network(const EventLog& log);

}  // namespace urnic::view
