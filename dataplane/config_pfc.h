// Part of reading the configuration file: [rnic.pfc].
#pragma once

#include "dataplane/config.h"
#include "dataplane/config_table.h"

namespace urnic::dataplane {

/// The [rnic.pfc] table of an RNIC.
void read_pfc(const toml::node& node, RnicConfig& rnic);

/// After all other tables: RNICs whose port has nobody at its other end to ask for a pause.
void check_pfc(const Config& config);

}  // namespace urnic::dataplane
