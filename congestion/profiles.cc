#include "congestion/profiles.h"

#include <algorithm>
#include <array>

namespace urnic::congestion {

namespace {

constexpr BitsPerSecond kMbit = 1'000'000;
constexpr BitsPerSecond kGbit = 1'000'000'000;
constexpr TimeNs kUs = 1'000;

constexpr std::array<DcqcnProfile, 4> kProfiles = {{
    // Zhu et al. 2015, table 14; hyper increase as in the authors' simulator.
    {.name = "paper",
     .parameters = {.g = Fraction::of(1, 256),
                    .initial_alpha = Fraction::one(),
                    .alpha_period_ns = 55 * kUs,
                    .increase_period_ns = 55 * kUs,
                    .increase_bytes = 10'000'000,
                    .recovery_stages = 5,
                    .additive_increase = 40 * kMbit,
                    .hyper_increase = 200 * kMbit,
                    .min_rate = 10 * kMbit},
     .min_time_between_cnps_ns = 50 * kUs},
    // mlxconfig's defaults of ConnectX NICs. Their byte counter of 32767 is in units that are not documented;
    // it is left out, as in the simulators that follow these NICs.
    {.name = "connectx",
     .parameters = {.g = Fraction::of(5, 1024),
                    .initial_alpha = Fraction::of(1023, 1024),
                    .alpha_period_ns = 1 * kUs,
                    .rate_reduce_monitor_period_ns = 4 * kUs,
                    .increase_period_ns = 300 * kUs,
                    .recovery_stages = 1,
                    .additive_increase = 5 * kMbit,
                    .hyper_increase = 50 * kMbit,
                    .min_rate = 1 * kMbit,
                    .alpha_once_per_period = true,
                    .clamp_tgt_rate = false,
                    .recovery_stages_inclusive = true},
     .min_time_between_cnps_ns = 4 * kUs},
    // Li et al., "HPCC", SIGCOMM 2019: the `dcqcn` of its ns-3 model, which has no gap between CNPs.
    {.name = "ns3-hpcc",
     .parameters = {.g = Fraction::of(1, 256),
                    .initial_alpha = Fraction::one(),
                    .alpha_period_ns = 1 * kUs,
                    .rate_reduce_monitor_period_ns = 4 * kUs,
                    .increase_period_ns = 300 * kUs,
                    .recovery_stages = 1,
                    .additive_increase = 5 * kMbit,
                    .hyper_increase = 50 * kMbit,
                    .min_rate = 100 * kMbit,
                    .alpha_once_per_period = true,
                    .clamp_tgt_rate = false,
                    .recovery_stages_inclusive = true},
     .increases_for = 25 * kGbit},
    // The ns-3 model of the DCQCN authors. It multiplies hyper increase by the stage, which is not done here.
    {.name = "ns3-bobzhuyb",
     .parameters = {.g = Fraction::of(1, 256),
                    .initial_alpha = Fraction::one(),
                    .alpha_period_ns = 55 * kUs,
                    .increase_period_ns = 60 * kUs,
                    .increase_bytes = 300'000'000,
                    .recovery_stages = 5,
                    .additive_increase = 40 * kMbit,
                    .hyper_increase = 200 * kMbit,
                    .min_rate = 10 * kMbit},
     .min_time_between_cnps_ns = 50 * kUs},
}};

// Alpha is brought up to date in one go after a pause: with a smaller weight that takes too long.
constexpr Fraction kLeastG = Fraction::of(1, 1024);
constexpr TimeNs kLeastPeriodNs = 500;
constexpr TimeNs kMostPeriodNs = 1'000'000'000;

constexpr bool is_period(TimeNs ns, bool may_be_none) {
    return ns == 0 ? may_be_none : ns >= kLeastPeriodNs && ns <= kMostPeriodNs;
}

}  // namespace

std::span<const DcqcnProfile> dcqcn_profiles() { return kProfiles; }

DcqcnParameters parameters_for(const DcqcnProfile& profile, BitsPerSecond line_rate) {
    DcqcnParameters parameters = profile.parameters;
    if (profile.increases_for != 0) {
        const auto scaled = [&](BitsPerSecond rate) {
            return rate * (std::min(line_rate, kMaxRate) / kMbit) / (profile.increases_for / kMbit);
        };
        parameters.additive_increase = scaled(parameters.additive_increase);
        parameters.hyper_increase = scaled(parameters.hyper_increase);
    }
    return parameters;
}

std::string_view problem_of(const DcqcnParameters& parameters) {
    if (parameters.g < kLeastG) {
        return "g is too small; it may be from 1/1024 to 1";
    }
    if (!is_period(parameters.alpha_period_ns, false)) {
        return "the alpha period may be from 0.5 us to 1 s";
    }
    if (!is_period(parameters.rate_reduce_monitor_period_ns, true)) {
        return "the cut window may be from 0.5 us to 1 s, or 0 for none";
    }
    if (!is_period(parameters.increase_period_ns, true)) {
        return "the increase period may be from 0.5 us to 1 s, or 0 for none";
    }
    if (parameters.increase_bytes != 0 && parameters.increase_bytes < 1024) {
        return "the byte counter may be from 1024 bytes on, or 0 for none";
    }
    if (parameters.increase_period_ns == 0 && parameters.increase_bytes == 0) {
        return "without an increase period and without a byte counter no rate would ever rise";
    }
    if (parameters.additive_increase == 0 || parameters.additive_increase > kMaxRate ||
        parameters.hyper_increase == 0 || parameters.hyper_increase > kMaxRate) {
        return "the increases may be from 1 bit/s to 1 Tbit/s";
    }
    if (parameters.min_rate < kMinRate || parameters.min_rate > kMaxRate ||
        parameters.rate_to_set_on_first_cnp > kMaxRate) {
        return "the least rate may be from 1 kbit/s to 1 Tbit/s, that of the first CNP up to 1 Tbit/s";
    }
    return {};
}

}  // namespace urnic::congestion
