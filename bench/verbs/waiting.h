// Threads that wait for completions by polling, beside processes that compute.
#pragma once

namespace urnic::bench {

/// Reads `WRITING POLLING COMPUTING BYTES SECONDS` a line and answers each with a line of JSON. Each thread
/// has a QP and a CQ of its own. WRITING threads write BYTES from urnic0 to urnic1 and poll until that is
/// complete, again and again; POLLING threads poll in vain; meanwhile COMPUTING processes use every cycle
/// that they get. Returns the exit status.
[[nodiscard]] int poll_beside_computing();

/// Reads `YIELDING COMPUTING SECONDS` a line and answers each with a line of JSON: what part of its time, on
/// average, a thread of YIELDING ones that do nothing but yield takes the others for computing, by the rule
/// of base/yield_monitor.h, and how long its yields took. Needs no RNIC. Returns the exit status.
[[nodiscard]] int yield_beside_computing();

}  // namespace urnic::bench
