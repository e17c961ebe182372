#include "rnic/device/rnic_profile.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace urnic {

namespace {

using congestion::NamedValue;
using wire::SourcePortRule;

const std::array<NamedValue, 4> kConnectXCongestion{{
    {"algorithm", "dcqcn"},
    {"profile", "connectx"},
    {"cnp_scope", "port"},
    {"nak_triggers_cnp", "true"},
}};
const std::array<NamedValue, 3> kE810Congestion{{
    {"cnp", "true"},
    {"cnp_scope", "flow"},
    {"min_time_between_cnps_us", "50"},
}};

constexpr std::string_view kLumina = "Lumina, SIGCOMM 2023";
constexpr std::string_view kLuminaAnalyzer = "Lumina's cnp_check.py";
constexpr std::string_view kMlxconfig = "mlxconfig's defaults";
constexpr std::string_view kLinuxPorts = "Linux, rdma_get_udp_sport()";
constexpr std::string_view kLinuxRxe = "Linux, drivers/infiniband/sw/rxe";

// rxe's timers are the kernel's, which expire at ticks; Debian's kernels have 250 of them a second.
constexpr TimeNs kDebianJiffyNs = 4'000'000;

const std::array<RnicProfile, 4> kRnicProfiles{{
    {.name = "strict",
     .use_go_back_n = true,
     .sends_mig_req = true,
     .source_port_rule = SourcePortRule::kFlow,
     .congestion = {},
     .sources = {.mig_req = "IBA 9.2",
                 .recovery = "IBA 9.7.5.1.2",
                 .source_port = "annex A17.9.2",
                 .cnp = "annex A17.9.3",
                 .nak_triggers_cnp = "annex A17.9.3"}},
    {.name = "connectx",
     .use_go_back_n = true,
     .sends_mig_req = true,
     .source_port_rule = SourcePortRule::kLinux,
     .congestion = kConnectXCongestion,
     .sources = {.recovery = kLumina,
                 .source_port = kLinuxPorts,
                 .cnp = kLumina,
                 .min_time_between_cnps = kMlxconfig,
                 .cnp_scope = kLumina,
                 .nak_triggers_cnp = kLuminaAnalyzer}},
    {.name = "e810",
     .use_go_back_n = true,
     .sends_mig_req = false,
     .source_port_rule = SourcePortRule::kLinux,
     .congestion = kE810Congestion,
     .sources = {.mig_req = kLumina,
                 .recovery = kLumina,
                 .source_port = kLinuxPorts,
                 .cnp = kLumina,
                 .min_time_between_cnps = kLumina,
                 .cnp_scope = kLumina,
                 .nak_triggers_cnp = kLuminaAnalyzer}},
    {.name = "rxe",
     .use_go_back_n = true,
     .sends_mig_req = false,
     .source_port_rule = SourcePortRule::kLinux,
     .congestion = {},
     .acks_each_request = true,
     .timer_tick_ns = kDebianJiffyNs,
     .sources = {.mig_req = kLinuxRxe,
                 .recovery = kLinuxRxe,
                 .source_port = kLinuxPorts,
                 .cnp = kLinuxRxe,
                 .nak_triggers_cnp = kLinuxRxe,
                 .acknowledgements = kLinuxRxe,
                 .timers = kLinuxRxe}},
}};

}  // namespace

std::span<const RnicProfile> rnic_profiles() { return kRnicProfiles; }

const RnicProfile* find_rnic_profile(std::string_view name) {
    const auto* const found = std::find_if(kRnicProfiles.begin(), kRnicProfiles.end(),
                                           [&](const RnicProfile& profile) { return profile.name == name; });
    return found == kRnicProfiles.end() ? nullptr : found;
}

std::string rnic_profile_names() {
    std::string names;
    for (const RnicProfile& profile : kRnicProfiles) {
        names += (names.empty() ? "\"" : ", \"") + std::string(profile.name) + "\"";
    }
    return names;
}

RnicCnpBehaviour cnp_behaviour(const RnicProfile& profile) {
    congestion::Settings settings = congestion::default_settings();
    URNIC_CHECK(!congestion::apply_named(profile.congestion, settings));
    return {.answers_marks = settings.cnp_enabled,
            .min_time_between_cnps_ns = settings.min_time_between_cnps_ns,
            .has_gap_of_each_qp = settings.cnp_scope == congestion::CnpScope::kFlow,
            .has_gap_of_each_address = settings.cnp_scope != congestion::CnpScope::kPort,
            .nak_triggers_cnp = settings.cnp_enabled && settings.nak_triggers_cnp};
}

}  // namespace urnic
