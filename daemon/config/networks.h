// Part of reading the configuration file: the [[wire]] tables.
#pragma once

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::dataplane {

/// Reads the array of [[wire]] tables into config.wires; nullptr: there is none. config.rnics is complete.
void read_wire_tables(const toml::node* wires, Config& config);

}  // namespace urnic::dataplane
