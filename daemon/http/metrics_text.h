// The page of metrics for programs, in each format that is served.
#pragma once

#include <string>

namespace urnic::daemon {

struct MetricsText {
    std::string prometheus;   // text format 0.0.4
    std::string openmetrics;  // OpenMetrics 1.0.0
};

}  // namespace urnic::daemon
