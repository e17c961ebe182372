// Part of reading the configuration file: what link layer a fabric has, and the LIDs of its ports.
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// `link_layer`, `lid`, `subnet_manager` and `duplicate_guid_of` of an [[rnic]].
void read_link_layer(TableReader& reader, RnicConfig& rnic);

/// After all other keys of an [[rnic]]: what goes with one link layer alone.
void check_link_layer(const toml::table& table, const RnicConfig& rnic);

/// After all tables: one link layer and different LIDs on each fabric, no [[network]] of InfiniBand. Gives
/// LIDs to the ports of InfiniBand that have none.
void finish_link_layers(Config& config);

}  // namespace urnic::daemon
