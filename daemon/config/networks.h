// Part of reading the configuration file: the [[network]] tables.
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// Reads the [[network]] tables of the file into config.networks. config.rnics is complete.
void read_networks(TableReader& reader, Config& config);

}  // namespace urnic::daemon
