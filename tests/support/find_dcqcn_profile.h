// A set of DCQCN parameters by its name, for tests of one of them.
#pragma once

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "congestion/profiles.h"

namespace urnic::congestion {

/// There is one of that name.
[[nodiscard]] inline const DcqcnProfile& find_dcqcn_profile(std::string_view name) {
    const auto profiles = dcqcn_profiles();
    const auto found = std::find_if(profiles.begin(), profiles.end(),
                                    [name](const DcqcnProfile& profile) { return profile.name == name; });
    URNIC_CHECK(found != profiles.end());
    return *found;
}

}  // namespace urnic::congestion
