// The behaviour of other RNICs, where the specification leaves a choice or an implementation departs from it,
// by name: `profile` of an [[rnic]] makes one of ours behave so, `urnic conform --profile` compares a device
// with it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/time.h"
#include "congestion/setting_names.h"
#include "rnic/wire/frame.h"

namespace urnic {

/// Where each behaviour is from, in a few words; docs/conform.md has them in full. Empty: nothing public is
/// known to say so.
struct RnicBehaviourSources {
    std::string_view mig_req;
    std::string_view recovery;
    std::string_view source_port;
    std::string_view cnp;
    std::string_view min_time_between_cnps;
    std::string_view cnp_scope;
    std::string_view nak_triggers_cnp;
    std::string_view acknowledgements;
    std::string_view timers;
};

struct RnicProfile {
    std::string_view name;
    bool use_go_back_n;
    bool sends_mig_req;
    wire::SourcePortRule source_port_rule;
    std::span<const congestion::NamedValue> congestion;  // as in [rnic.congestion]
    bool acks_each_request = false;                      // QpConfig::acks_each_request
    TimeNs timer_tick_ns = 0;                            // QpConfig::timer_tick_ns
    RnicBehaviourSources sources;
};

[[nodiscard]] std::span<const RnicProfile> rnic_profiles();
/// nullptr when there is none of that name.
[[nodiscard]] const RnicProfile* find_rnic_profile(std::string_view name);
/// "\"strict\", \"connectx\", ...": all names.
[[nodiscard]] std::string rnic_profile_names();

/// How such an RNIC answers congestion, as its peers see it.
struct RnicCnpBehaviour {
    bool answers_marks;
    TimeNs min_time_between_cnps_ns;
    bool has_gap_of_each_qp;       // and not one for several QPs with the same peer
    bool has_gap_of_each_address;  // and not one for peers of several addresses
    bool nak_triggers_cnp;
};
[[nodiscard]] RnicCnpBehaviour cnp_behaviour(const RnicProfile& profile);

}  // namespace urnic
