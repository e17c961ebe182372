// Part of reading the configuration file: addresses and routes, on the wire and on VLANs.
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// The keys `gateway`, `ipv4`, `ipv6` and `routes`.
void read_link(TableReader& reader, LinkConfig& link);

/// The [[rnic.vlan]] tables of an RNIC.
void read_vlans(TableReader& reader, RnicConfig& rnic);

/// The key of an address that two RNICs have on the same VLAN; nullptr: there is none.
[[nodiscard]] const char* same_vlan_address(const RnicConfig& a, const RnicConfig& b);

}  // namespace urnic::daemon
