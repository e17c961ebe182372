// Part of reading the configuration file: the [[fault]] tables.
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// Reads the [[fault]] tables of the file into config.faults. config.rnics is complete.
void read_faults(TableReader& reader, Config& config);

}  // namespace urnic::daemon
