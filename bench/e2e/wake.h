// What it takes to wake somebody who sleeps on another CPU: no program that sleeps can answer sooner.
#pragma once

#include "bench/e2e/results.h"

namespace urnic::bench {

/// Two processes wake each other by eventfds in turn for `seconds`, each time after `pause_ms` of silence.
void wake_latency(int cpu_a, int cpu_b, double seconds, std::uint32_t pause_ms, Results& results);

}  // namespace urnic::bench
