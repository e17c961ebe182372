// Part of reading the configuration file: what link layer a fabric has, and the LIDs of its ports.
#pragma once

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// `link_layer`, `lid` and `subnet_manager` of an [[rnic]].
void set_link_layer(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_lid(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_subnet_manager(RnicConfig& rnic, const toml::node& node, const std::string& key);

/// After all other keys of an [[rnic]]: what goes with one link layer alone.
void check_link_layer(const toml::table& table, const RnicConfig& rnic);

/// After all tables: one link layer and different LIDs on each fabric, no [[network]] of InfiniBand. Gives
/// LIDs to the ports of InfiniBand that have none.
void finish_link_layers(Config& config);

}  // namespace urnic::daemon
