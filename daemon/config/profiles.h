// Ways in which RNICs differ, the specification leaving a choice or an implementation departing from it; and
// those of other RNICs, `profile` of an [[rnic]], so that software meets a peer that does as they do.
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// The key `profile`, to be read before all others, and `recovery`, `failed_invalidation`, `mig_req`,
/// `udp_source_port`, `ack_coalescing` and `timer_tick_us`.
void read_profile(TableReader& reader, RnicConfig& rnic);

}  // namespace urnic::daemon
