// What the tester finds out about a listener before the first case.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "conform/cm/cm_bench.h"
#include "conform/cm/passive_bench.h"

namespace urnic::conform {

/// A connection is made and its QP answers; what the REP says about the device, by name. `port`: of the
/// listener, for messages. Throws BenchFailed with what was missing after several attempts.
[[nodiscard]] std::map<std::string, std::string> prove_listener(CmBench& bench, std::uint16_t port);

/// Returns whether the responder keeps packets that come early (IBA 9.7.5.1.2 leaves the choice).
[[nodiscard]] bool listener_keeps_early_packets(CmBench& bench);

/// A client asks the tester for a connection, which stands and is released again; what its REQ says about the
/// device, by name. `port`: what the tester listens at, for messages. Throws BenchFailed with what was
/// missing.
[[nodiscard]] std::map<std::string, std::string> prove_client(PassiveCmBench& bench, std::uint16_t port);

}  // namespace urnic::conform
