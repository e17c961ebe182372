#include "daemon/config/profiles.h"

#include "congestion/setting_names.h"
#include "rnic/device/rnic_profile.h"

namespace urnic::daemon {

void read_profile(TableReader& reader, RnicConfig& rnic) {
    if (reader.read_text("profile", rnic.profile)) {
        const RnicProfile* const profile = find_rnic_profile(rnic.profile);
        if (profile == nullptr) {
            reader.fail("profile", std::string("must be one of ") + rnic_profile_names());
        }
        rnic.use_go_back_n = profile->use_go_back_n;
        rnic.sends_mig_req = profile->sends_mig_req;
        rnic.source_port_rule = profile->source_port_rule;
        URNIC_CHECK(!congestion::apply_named(profile->congestion, rnic.congestion));
    }
    reader.read_choice("recovery", rnic.use_go_back_n, {"selective", "go-back-n"});
    reader.read_flag("mig_req", rnic.sends_mig_req);
    reader.read_choice("udp_source_port", rnic.source_port_rule, {"flow", "linux"});
    reader.read_choice("failed_invalidation", rnic.nak_failed_invalidation, {"ack", "nak"});
}

}  // namespace urnic::daemon
