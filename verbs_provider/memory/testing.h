// Switches that only tests use.
#pragma once

#include "verbs_provider/memory/registry.h"

namespace urnic::memory {

/// Behaves as on another kernel, or in a way that loses updates.
void apply_for_test(const RegistrySettings& settings);
/// Stretches of converted pages there are now.
[[nodiscard]] std::uint64_t stretches_for_test();

}  // namespace urnic::memory
