// Part of reading the configuration file: the [[network]] tables.
#pragma once

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// Reads the array of [[network]] tables into config.networks; nullptr: there is none. config.rnics is
/// complete.
void read_network_tables(const toml::node* networks, Config& config);

}  // namespace urnic::daemon
