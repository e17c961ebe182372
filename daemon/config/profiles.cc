#include "daemon/config/profiles.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "base/check.h"
#include "congestion/setting_names.h"

namespace urnic::daemon {

namespace {

using wire::SourcePortRule;

/// docs/conform.md names the public source of each.
struct RnicProfile {
    std::string_view name;
    bool uses_go_back_n;
    bool sends_mig_req;
    SourcePortRule source_port_rule;
    std::span<const congestion::NamedValue> congestion;  // as in [rnic.congestion]
};

const std::array<congestion::NamedValue, 4> kConnectX{{
    {"algorithm", "dcqcn"},
    {"profile", "connectx"},
    {"cnp_scope", "port"},
    {"nak_triggers_cnp", "true"},
}};
const std::array<congestion::NamedValue, 3> kE810{{
    {"cnp", "true"},
    {"cnp_scope", "flow"},
    {"min_time_between_cnps_us", "50"},
}};

const std::array<RnicProfile, 4> kProfiles{{
    {"strict", true, true, SourcePortRule::kFlow, {}},
    {"connectx", true, true, SourcePortRule::kLinux, kConnectX},
    {"e810", true, false, SourcePortRule::kLinux, kE810},
    {"rxe", true, false, SourcePortRule::kLinux, {}},
}};

}  // namespace

void read_profile(const toml::node& node, RnicConfig& rnic) {
    const std::string name = get_string(node, "profile");
    const auto* const found = std::find_if(kProfiles.begin(), kProfiles.end(),
                                           [&](const RnicProfile& profile) { return profile.name == name; });
    if (found == kProfiles.end()) {
        std::string names;
        for (const RnicProfile& profile : kProfiles) {
            names += (names.empty() ? "" : ", ") + fmt::format("\"{}\"", profile.name);
        }
        throw_at(node, fmt::format("'profile' must be one of {}", names));
    }
    rnic.profile = name;
    rnic.use_go_back_n = found->uses_go_back_n;
    rnic.sends_mig_req = found->sends_mig_req;
    rnic.source_port_rule = found->source_port_rule;
    URNIC_CHECK(!congestion::apply_named(found->congestion, rnic.congestion));
}

void set_recovery(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.use_go_back_n = is_second_of(node, key, "selective", "go-back-n");
}

void set_failed_invalidation(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.nak_failed_invalidation = is_second_of(node, key, "ack", "nak");
}

void set_source_port(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.source_port_rule =
        is_second_of(node, key, "flow", "linux") ? SourcePortRule::kLinux : SourcePortRule::kFlow;
}

void set_mig_req(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.sends_mig_req = get_bool(node, key);
}

}  // namespace urnic::daemon
