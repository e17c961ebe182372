// Threads that wait for completions by polling, beside processes that compute.
#pragma once

namespace urnic::bench {

/// Reads `THREADS COMPUTING BYTES SECONDS` a line and answers each with a line of JSON. Each thread has a QP
/// and a CQ of its own, writes BYTES from urnic0 to urnic1 and polls until that is complete, again and again;
/// meanwhile COMPUTING processes use every cycle that they get. Returns the exit status.
[[nodiscard]] int poll_beside_computing();

}  // namespace urnic::bench
