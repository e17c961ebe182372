// Part of reading the configuration file: what a [[network]] says of InfiniBand's link layer.
#pragma once

#include "daemon/config/config.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// The keys of a [[network]] for it.
void read_subnet(TableReader& reader, SubnetConfig& subnet);

/// Refuses the keys of the link layer that the RNICs of the network do not have, and fills in what is left
/// out.
void check_subnet(const toml::table& table, NetworkConfig& network, bool is_infiniband, bool has_external_sm);

}  // namespace urnic::daemon
