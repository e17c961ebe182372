#include "daemon/config/profiles.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace urnic::daemon {

namespace {

using wire::SourcePortRule;

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

std::span<const RnicProfile> rnic_profiles() { return kProfiles; }

bool use_profile(std::string_view name, RnicConfig& rnic) {
    const auto* const found = std::find_if(kProfiles.begin(), kProfiles.end(),
                                           [&](const RnicProfile& profile) { return profile.name == name; });
    if (found == kProfiles.end()) {
        return false;
    }
    rnic.profile = name;
    rnic.use_go_back_n = found->uses_go_back_n;
    rnic.sends_mig_req = found->sends_mig_req;
    rnic.source_port_rule = found->source_port_rule;
    URNIC_CHECK(!congestion::apply_named(found->congestion, rnic.congestion));
    return true;
}

void read_profile(const toml::node& node, RnicConfig& rnic) {
    if (use_profile(get_string(node, "profile"), rnic)) {
        return;
    }
    std::string names;
    for (const RnicProfile& profile : rnic_profiles()) {
        names += (names.empty() ? "" : ", ") + fmt::format("\"{}\"", profile.name);
    }
    throw_at(node, fmt::format("'profile' must be one of {}", names));
}

void set_recovery(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    const std::string recovery = get_string(node, key);
    if (recovery != "selective" && recovery != "go-back-n") {
        throw_at(node, fmt::format("'{}' must be \"selective\" or \"go-back-n\"", key));
    }
    rnic.use_go_back_n = recovery == "go-back-n";
}

void set_failed_invalidation(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    const std::string answer = get_string(node, key);
    if (answer != "ack" && answer != "nak") {
        throw_at(node, fmt::format("'{}' must be \"ack\" or \"nak\"", key));
    }
    rnic.nak_failed_invalidation = answer == "nak";
}

void set_source_port(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    const std::string rule = get_string(node, key);
    if (rule != "flow" && rule != "linux") {
        throw_at(node, fmt::format("'{}' must be \"flow\" or \"linux\"", key));
    }
    rnic.source_port_rule = rule == "linux" ? wire::SourcePortRule::kLinux : wire::SourcePortRule::kFlow;
}

void set_mig_req(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.sends_mig_req = get_bool(node, key);
}

}  // namespace urnic::daemon
