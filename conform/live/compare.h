// What a device's ways are like beside those of a profile. No verdict depends on it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "conform/case/script.h"
#include "rnic/device/rnic_profile.h"

namespace urnic::conform {

/// What the profile has, in the units of ShownWay; nothing: it does not say.
[[nodiscard]] std::optional<std::uint64_t> way_of(const RnicProfile& profile, Way way);

/// Nothing where the profile does not say.
[[nodiscard]] std::optional<Comparison> compare(const RnicProfile& profile, const ShownWay& shown);

/// Each that shows a way gets its comparison.
void compare(const RnicProfile& profile, std::span<Measurement> measurements);

}  // namespace urnic::conform
