// In which format a program wants metrics.
#pragma once

#include <string_view>

namespace urnic::daemon {

/// Returns whether an Accept header (RFC 9110, section 12.5.1) asks for OpenMetrics 1.0.0, and wants
/// Prometheus' text format no more than that. What cannot be read in it is passed over: text is always right.
[[nodiscard]] bool is_openmetrics_preferred(std::string_view accept);

}  // namespace urnic::daemon
