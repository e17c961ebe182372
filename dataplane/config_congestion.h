// Part of reading the configuration file: [rnic.congestion].
#pragma once

#include "dataplane/config.h"
#include "dataplane/config_table.h"

namespace urnic::dataplane {

/// The [rnic.congestion] table of an RNIC.
void read_congestion(const toml::node& node, RnicConfig& rnic);

}  // namespace urnic::dataplane
