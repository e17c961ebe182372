#include "conform/live/compare.h"

namespace urnic::conform {

namespace {

constexpr std::uint64_t kNsPerMicrosecond = 1'000;

std::string source_port_text(std::uint64_t rule) {
    return rule == static_cast<std::uint64_t>(wire::SourcePortRule::kLinux) ? "as Linux makes them"
                                                                            : "as urnic makes them";
}

// As the sentence "differs from connectx: ..." ends.
std::string behaviour_text(DeviceBehaviour behaviour, std::uint64_t value) {
    switch (behaviour) {
        case DeviceBehaviour::kEarlyPackets:
            return value != 0 ? "they are kept" : "they are discarded";
        case DeviceBehaviour::kRepetition:
            return value != 0 ? "all that follows goes again" : "what is missing goes again, alone";
        case DeviceBehaviour::kSourcePort:
            return source_port_text(value);
        case DeviceBehaviour::kCnp:
            return value != 0 ? "a mark has a CNP" : "no mark has a CNP";
        case DeviceBehaviour::kCnpGap:
            return "at least " + std::to_string(value / kNsPerMicrosecond) + " us";
        case DeviceBehaviour::kCnpScope:
            return value != 0 ? "a gap for each QP" : "one gap for both QPs";
        case DeviceBehaviour::kCnpScopeOfAddresses:
            return value != 0 ? "a gap for each address" : "one gap for both addresses";
        case DeviceBehaviour::kAckOfEachRequest:
            return value != 0 ? "each has an ACK of its own" : "one ACK stands for several";
        default:
            return std::to_string(value);
    }
}

std::string_view source_of(const RnicBehaviourSources& sources, DeviceBehaviour behaviour) {
    switch (behaviour) {
        case DeviceBehaviour::kMigReq:
            return sources.mig_req;
        case DeviceBehaviour::kEarlyPackets:
        case DeviceBehaviour::kRepetition:
            return sources.recovery;
        case DeviceBehaviour::kSourcePort:
            return sources.source_port;
        case DeviceBehaviour::kCnp:
            return sources.cnp;
        case DeviceBehaviour::kCnpGap:
            return sources.min_time_between_cnps;
        case DeviceBehaviour::kCnpScope:
        case DeviceBehaviour::kCnpScopeOfAddresses:
            return sources.cnp_scope;
        case DeviceBehaviour::kAckOfEachRequest:
            return sources.acknowledgements;
        default:
            return sources.nak_triggers_cnp;
    }
}

// A wire and a busy machine bring CNPs closer together than they were sent; and where no two marks came
// closer than the profile's gap, a device with a longer one looks the same.
bool is_alike(DeviceBehaviour behaviour, std::uint64_t seen, std::uint64_t expected) {
    constexpr std::uint64_t kPercent = 100;
    constexpr std::uint64_t kLeastPercent = 80;
    return behaviour == DeviceBehaviour::kCnpGap ? seen * kPercent >= expected * kLeastPercent
                                                 : seen == expected;
}

}  // namespace

std::optional<std::uint64_t> behaviour_of(const RnicProfile& profile, DeviceBehaviour behaviour) {
    const RnicCnpBehaviour cnp = cnp_behaviour(profile);
    switch (behaviour) {
        case DeviceBehaviour::kMigReq:
            return profile.sends_mig_req ? 1 : 0;
        case DeviceBehaviour::kEarlyPackets:
            return profile.use_go_back_n ? 0 : 1;
        case DeviceBehaviour::kRepetition:
            return profile.use_go_back_n ? 1 : 0;
        case DeviceBehaviour::kSourcePort:
            return static_cast<std::uint64_t>(profile.source_port_rule);
        case DeviceBehaviour::kCnp:
            return cnp.answers_marks ? 1 : 0;
        case DeviceBehaviour::kCnpGap:
            return cnp.answers_marks ? std::optional<std::uint64_t>(cnp.min_time_between_cnps_ns)
                                     : std::nullopt;
        case DeviceBehaviour::kCnpScope:
            return cnp.answers_marks ? std::optional<std::uint64_t>(cnp.has_gap_of_each_qp ? 1 : 0)
                                     : std::nullopt;
        case DeviceBehaviour::kCnpScopeOfAddresses:
            return cnp.answers_marks ? std::optional<std::uint64_t>(cnp.has_gap_of_each_address ? 1 : 0)
                                     : std::nullopt;
        case DeviceBehaviour::kAckOfEachRequest:
            // Nothing public says when the others acknowledge.
            return profile.acks_each_request ? std::optional<std::uint64_t>(1) : std::nullopt;
        default:
            return cnp.nak_triggers_cnp ? 1 : 0;
    }
}

std::optional<Comparison> compare(const RnicProfile& profile, const ShownBehaviour& shown) {
    const std::optional<std::uint64_t> expected = behaviour_of(profile, shown.behaviour);
    if (!expected) {
        return {};
    }
    const std::string name(profile.name);
    if (is_alike(shown.behaviour, shown.value, *expected)) {
        return Comparison{true, "as " + name};
    }
    const std::string source(source_of(profile.sources, shown.behaviour));
    return Comparison{false, "differs from " + name + ": " + behaviour_text(shown.behaviour, *expected) +
                                 (source.empty() ? "" : ", by " + source)};
}

void compare(const RnicProfile& profile, std::span<Measurement> measurements) {
    for (Measurement& measurement : measurements) {
        if (measurement.shown) {
            measurement.comparison = compare(profile, *measurement.shown);
        }
    }
}

}  // namespace urnic::conform
