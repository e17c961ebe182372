// Part of reading the configuration file: [rnic.congestion].
#pragma once

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// The [rnic.congestion] table of an RNIC.
void read_congestion(const toml::node& node, RnicConfig& rnic);

}  // namespace urnic::daemon
