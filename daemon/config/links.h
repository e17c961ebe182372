// Part of reading the configuration file: addresses and routes of an RNIC's links, the untagged one and those
// of VLANs.
#pragma once

#include <string>

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// Setters of the keys `ipv4`, `ipv6`, `gateway` and `routes`.
void set_ipv4(LinkConfig& link, const toml::node& node, const std::string& key);
void set_ipv6(LinkConfig& link, const toml::node& node, const std::string& key);
void set_gateway(LinkConfig& link, const toml::node& node, const std::string& key);
void set_routes(LinkConfig& link, const toml::node& node, const std::string& key);

/// The [[rnic.vlan]] tables of an RNIC.
void read_vlans(const toml::node& node, RnicConfig& rnic);

/// The key of an address that two RNICs have on the same VLAN; nullptr: there is none.
[[nodiscard]] const char* same_vlan_address(const RnicConfig& a, const RnicConfig& b);

}  // namespace urnic::daemon
