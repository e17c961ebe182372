// Waiting for what must come.
#pragma once

#include <functional>

namespace urnic::e2e {

/// Lets others run until `there()`. Returns whether that came to be within a time that is long enough for a
/// busy machine; a test that has waited in vain once is not patient any more.
[[nodiscard]] bool comes(const std::function<bool()>& there);

}  // namespace urnic::e2e
