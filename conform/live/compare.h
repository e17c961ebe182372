// A device's behaviour beside that of a profile. No verdict depends on it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "conform/case/script.h"
#include "rnic/device/rnic_profile.h"

namespace urnic::conform {

/// What the profile has, in the units of ShownBehaviour; nothing: it does not say.
[[nodiscard]] std::optional<std::uint64_t> behaviour_of(const RnicProfile& profile,
                                                        DeviceBehaviour behaviour);

/// Nothing where the profile does not say.
[[nodiscard]] std::optional<Comparison> compare(const RnicProfile& profile, const ShownBehaviour& shown);

/// Each that shows a behaviour gets its comparison.
void compare(const RnicProfile& profile, std::span<Measurement> measurements);

}  // namespace urnic::conform
