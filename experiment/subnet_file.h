// Part of reading an experiment's file: [subnet], InfiniBand's link layer.
#pragma once

#include "netsim/infiniband/ib_network.h"
#include "toml/table_reader.h"

namespace urnic::experiment {

/// The keys are those of the daemon's [[network]] (docs/infiniband.md).
[[nodiscard]] netsim::IbNetworkOptions read_subnet(TableReader& reader);

}  // namespace urnic::experiment
