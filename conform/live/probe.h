// What the tester finds out before the first case: that packets reach the device's transport and come back,
// and how it recovers.
#pragma once

#include "conform/live/live_bench.h"

namespace urnic::conform {

/// A WRITE of the tester is acknowledged, and a WRITE of the device reaches the tester. Throws BenchFailed
/// with what was missing after several attempts.
void prove_transport(LiveBench& bench);

/// Returns whether the device's responder keeps packets that come early (IBA 9.7.5.1.2 leaves the choice).
[[nodiscard]] bool keeps_early_packets(LiveBench& bench);

}  // namespace urnic::conform
