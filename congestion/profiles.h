// Sets of DCQCN parameters by name, as papers, NICs and simulators have them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "congestion/dcqcn.h"

namespace urnic::congestion {

struct DcqcnProfile {
    std::string_view name;
    DcqcnParameters parameters;
    /// The increases are for this line rate and grow with it; 0: the same at every rate.
    BitsPerSecond increases_for = 0;
    /// What the receiving end does: time between two CNPs for one flow.
    TimeNs min_time_between_cnps_ns = 0;
};

/// All of them; the first is the default.
[[nodiscard]] std::span<const DcqcnProfile> dcqcn_profiles();

/// The profile's parameters on a link of that rate.
[[nodiscard]] DcqcnParameters parameters_for(const DcqcnProfile& profile, BitsPerSecond line_rate);

/// What is wrong with a set of parameters, in words, with what is allowed; empty: nothing.
[[nodiscard]] std::string_view problem_of(const DcqcnParameters& parameters);

}  // namespace urnic::congestion
