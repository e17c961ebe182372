// Ways in which RNICs differ, the specification leaving a choice or an implementation departing from it; and
// those of other RNICs, `profile` of an [[rnic]], so that software meets a peer that does as they do.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "congestion/setting_names.h"
#include "daemon/config/config.h"
#include "daemon/config/toml_table.h"

namespace urnic::daemon {

/// docs/conform.md names the public source of each.
struct RnicProfile {
    std::string_view name;
    bool uses_go_back_n;
    bool sends_mig_req;
    wire::SourcePortRule source_port_rule;
    std::span<const congestion::NamedValue> congestion;  // as in [rnic.congestion]
};

[[nodiscard]] std::span<const RnicProfile> rnic_profiles();

/// Gives the RNIC the ways of the profile of that name. Returns whether there is one.
[[nodiscard]] bool use_profile(std::string_view name, RnicConfig& rnic);

/// The key `profile`, to be read before the others.
void read_profile(const toml::node& node, RnicConfig& rnic);
/// Setters of the keys `recovery`, `failed_invalidation`, `mig_req` and `udp_source_port`.
void set_recovery(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_failed_invalidation(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_mig_req(RnicConfig& rnic, const toml::node& node, const std::string& key);
void set_source_port(RnicConfig& rnic, const toml::node& node, const std::string& key);

}  // namespace urnic::daemon
