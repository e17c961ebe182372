// The partitions of an RNIC's port: `pkeys` of an [[rnic]].
#pragma once

#include <string>

#include "daemon/config/toml_table.h"
#include "rnic/device/pkey_table.h"

namespace urnic::daemon {

/// A list of 1 to 128 different P_Keys, which becomes the table from entry 0 on.
[[nodiscard]] PkeyTable read_pkeys(const toml::node& node, const std::string& key);

}  // namespace urnic::daemon
