// Part of reading an experiment's file: [subnet], InfiniBand's link layer.
#pragma once

#include <toml++/toml.h>

#include "netsim/infiniband/ib_network.h"

namespace urnic::experiment {

/// The keys are those of the daemon's [[network]] (docs/infiniband.md). nullptr: the file says nothing.
[[nodiscard]] netsim::IbNetworkOptions read_subnet(const toml::table* table);

}  // namespace urnic::experiment
