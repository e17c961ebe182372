// Part of reading the configuration file: the [[fault]] tables.
#pragma once

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// Reads the array of [[fault]] tables into config.faults; nullptr: there is none. config.rnics is complete.
void read_fault_tables(const toml::node* faults, Config& config);

}  // namespace urnic::daemon
