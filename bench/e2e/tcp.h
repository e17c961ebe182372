// What a user would take instead: TCP over loopback, with blocking calls.
#pragma once

#include "bench/e2e/results.h"

namespace urnic::bench {

/// 8-byte ping-pong with TCP_NODELAY between two processes for `seconds`.
void tcp_latency(int cpu_a, int cpu_b, double seconds, Results& results);

/// 64 KiB writes one way for `seconds`; counts what arrived.
void tcp_bandwidth(int cpu_a, int cpu_b, double seconds, Results& results);

}  // namespace urnic::bench
