#include "daemon/config/profiles.h"

#include "base/check.h"
#include "congestion/setting_names.h"
#include "rnic/device/rnic_profile.h"

namespace urnic::daemon {

void read_profile(const toml::node& node, RnicConfig& rnic) {
    const std::string name = get_string(node, "profile");
    const RnicProfile* const profile = find_rnic_profile(name);
    if (profile == nullptr) {
        throw_at(node, fmt::format("'profile' must be one of {}", rnic_profile_names()));
    }
    rnic.profile = name;
    rnic.use_go_back_n = profile->use_go_back_n;
    rnic.sends_mig_req = profile->sends_mig_req;
    rnic.source_port_rule = profile->source_port_rule;
    URNIC_CHECK(!congestion::apply_named(profile->congestion, rnic.congestion));
}

void set_recovery(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.use_go_back_n = is_second_of(node, key, "selective", "go-back-n");
}

void set_failed_invalidation(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.nak_failed_invalidation = is_second_of(node, key, "ack", "nak");
}

void set_source_port(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.source_port_rule =
        is_second_of(node, key, "flow", "linux") ? wire::SourcePortRule::kLinux : wire::SourcePortRule::kFlow;
}

void set_mig_req(RnicConfig& rnic, const toml::node& node, const std::string& key) {
    rnic.sends_mig_req = get_bool(node, key);
}

}  // namespace urnic::daemon
