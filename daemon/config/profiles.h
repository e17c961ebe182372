// Ways in which RNICs differ, the specification leaving a choice or an implementation departing from it; and
// those of other RNICs, `profile` of an [[rnic]], so that software meets a peer that does as they do.
#pragma once

#include <string>

#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// The key `profile`, to be read before the others.
void read_profile(const toml::node& node, RnicConfig& rnic);
/// Setters of the keys `recovery`, `failed_invalidation`, `mig_req` and `udp_source_port`.
void set_recovery(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_failed_invalidation(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_mig_req(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_source_port(RnicConfig& rnic, const toml::node& node, const std::string& key);

}  // namespace urnic::daemon
