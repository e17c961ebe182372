// Several threads of one program, each with connections of its own: what more workers bring.
#pragma once

#include <cstdint>

namespace urnic::bench {

/// Reads `BYTES IN_FLIGHT SECONDS` a line and answers each with the messages a second of all threads
/// together. Each thread has a CQ and `connections` RC QPs on urnic0, which write to as many on urnic1. The
/// daemon gives the QPs of each device to its workers in turn, so that both ends of a connection have the
/// same worker where `connections` is a multiple of their number; with `apart` the ends have neighbouring
/// workers. Returns the exit status.
[[nodiscard]] int write_in_threads(std::uint32_t threads, std::uint32_t connections, bool apart);

}  // namespace urnic::bench
