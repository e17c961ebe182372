// Part of reading the configuration file: [rnic.congestion].
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// The [rnic.congestion] table of an RNIC.
void read_congestion(TableReader& reader, RnicConfig& rnic);

}  // namespace urnic::daemon
