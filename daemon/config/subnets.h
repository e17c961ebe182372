// Part of reading the configuration file: what a [[network]] says of InfiniBand's link layer.
#pragma once

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

// Setters of keys; they throw ParseError.
void set_lmc(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_vls(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_sl_to_vl(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_vl_high(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_vl_low(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_vl_high_limit(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_vl_buffer(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_hoq_life(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_switch_life(NetworkConfig& network, const toml::node& node, const std::string& key);
void set_idle_hosts(NetworkConfig& network, const toml::node& node, const std::string& key);

/// Refuses the keys of the link layer that the RNICs of the network do not have, and fills in what is left
/// out.
void check_subnet(const toml::table& table, NetworkConfig& network, bool is_infiniband, bool has_external_sm);

}  // namespace urnic::daemon
