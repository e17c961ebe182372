// The partitions of an RNIC's port: `pkeys` of an [[rnic]].
#pragma once

#include "rnic/device/pkey_table.h"
#include "toml/table_reader.h"

namespace urnic::daemon {

/// A list of 1 to 128 different P_Keys, which becomes the table from entry 0 on.
void read_pkeys(TableReader& reader, PkeyTable& table);

}  // namespace urnic::daemon
