#include "conform/live/compare.h"

namespace urnic::conform {

namespace {

constexpr std::uint64_t kNsPerMicrosecond = 1'000;

std::string source_port_text(std::uint64_t rule) {
    return rule == static_cast<std::uint64_t>(wire::SourcePortRule::kLinux) ? "as Linux makes them"
                                                                            : "as urnic makes them";
}

// As the sentence "differs from connectx: ..." ends.
std::string way_text(Way way, std::uint64_t value) {
    switch (way) {
        case Way::kEarlyPackets:
            return value != 0 ? "they are kept" : "they are discarded";
        case Way::kRepetition:
            return value != 0 ? "all that follows goes again" : "what is missing goes again, alone";
        case Way::kSourcePort:
            return source_port_text(value);
        case Way::kCnp:
            return value != 0 ? "a mark has a CNP" : "no mark has a CNP";
        case Way::kCnpGap:
            return "at least " + std::to_string(value / kNsPerMicrosecond) + " us";
        case Way::kCnpScope:
            return value != 0 ? "a gap for each QP" : "one gap for both QPs";
        default:
            return std::to_string(value);
    }
}

std::string_view source_of(const RnicWaySources& sources, Way way) {
    switch (way) {
        case Way::kMigReq:
            return sources.mig_req;
        case Way::kEarlyPackets:
        case Way::kRepetition:
            return sources.recovery;
        case Way::kSourcePort:
            return sources.source_port;
        case Way::kCnp:
            return sources.cnp;
        case Way::kCnpGap:
            return sources.min_time_between_cnps;
        case Way::kCnpScope:
            return sources.cnp_scope;
        default:
            return sources.nak_triggers_cnp;
    }
}

// A wire and a busy machine bring CNPs closer together than they were sent; and where no two marks came
// closer than the profile's gap, a device with a longer one looks the same.
bool is_alike(Way way, std::uint64_t seen, std::uint64_t expected) {
    constexpr std::uint64_t kPercent = 100;
    constexpr std::uint64_t kLeastPercent = 80;
    return way == Way::kCnpGap ? seen * kPercent >= expected * kLeastPercent : seen == expected;
}

}  // namespace

std::optional<std::uint64_t> way_of(const RnicProfile& profile, Way way) {
    const RnicCnpWays cnp = cnp_ways(profile);
    switch (way) {
        case Way::kMigReq:
            return profile.sends_mig_req ? 1 : 0;
        case Way::kEarlyPackets:
            return profile.use_go_back_n ? 0 : 1;
        case Way::kRepetition:
            return profile.use_go_back_n ? 1 : 0;
        case Way::kSourcePort:
            return static_cast<std::uint64_t>(profile.source_port_rule);
        case Way::kCnp:
            return cnp.answers_marks ? 1 : 0;
        case Way::kCnpGap:
            return cnp.answers_marks ? std::optional<std::uint64_t>(cnp.min_time_between_cnps_ns)
                                     : std::nullopt;
        case Way::kCnpScope:
            return cnp.answers_marks ? std::optional<std::uint64_t>(cnp.has_gap_of_each_qp ? 1 : 0)
                                     : std::nullopt;
        default:
            return cnp.nak_triggers_cnp ? 1 : 0;
    }
}

std::optional<Comparison> compare(const RnicProfile& profile, const ShownWay& shown) {
    const std::optional<std::uint64_t> expected = way_of(profile, shown.way);
    if (!expected) {
        return {};
    }
    const std::string name(profile.name);
    if (is_alike(shown.way, shown.value, *expected)) {
        return Comparison{true, "as " + name};
    }
    const std::string source(source_of(profile.sources, shown.way));
    return Comparison{false, "differs from " + name + ": " + way_text(shown.way, *expected) +
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
