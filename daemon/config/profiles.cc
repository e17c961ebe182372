#include "daemon/config/profiles.h"

#include "congestion/setting_names.h"
#include "rnic/device/rnic_profile.h"

namespace urnic::daemon {

namespace {
constexpr double kNsPerUs = 1e3;
constexpr double kMostTickUs = 1e5;  // 0.1 s: what takes longer is no timer
}  // namespace

void read_profile(TableReader& reader, RnicConfig& rnic) {
    if (reader.read_text("profile", rnic.profile)) {
        const RnicProfile* const profile = find_rnic_profile(rnic.profile);
        if (profile == nullptr) {
            reader.fail("profile", std::string("must be one of ") + rnic_profile_names());
        }
        rnic.use_go_back_n = profile->use_go_back_n;
        rnic.sends_mig_req = profile->sends_mig_req;
        rnic.source_port_rule = profile->source_port_rule;
        rnic.acks_each_request = profile->acks_each_request;
        rnic.timer_tick_ns = profile->timer_tick_ns;
        URNIC_CHECK(!congestion::apply_named(profile->congestion, rnic.congestion));
    }
    reader.read_choice("recovery", rnic.use_go_back_n, {"selective", "go-back-n"});
    reader.read_flag("mig_req", rnic.sends_mig_req);
    reader.read_choice("udp_source_port", rnic.source_port_rule, {"flow", "linux"});
    reader.read_choice("ack_coalescing", rnic.acks_each_request, {"burst", "none"});
    reader.read_scaled("timer_tick_us", rnic.timer_tick_ns, kNsPerUs, 0, kMostTickUs);
    reader.read_choice("failed_invalidation", rnic.nak_failed_invalidation, {"ack", "nak"});
}

}  // namespace urnic::daemon
