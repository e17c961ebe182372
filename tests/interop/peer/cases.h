// The tests that `peer` knows, by name. Both sides run the same function; `side.active()` tells them apart.
#pragma once

#include <span>
#include <string_view>

#include "tests/interop/peer/side.h"

namespace urnic::interop {

struct Case {
    std::string_view name;
    std::string_view what;
    void (*run)(Side&);
};

[[nodiscard]] std::span<const Case> transfer_cases();
[[nodiscard]] std::span<const Case> window_cases();
[[nodiscard]] std::span<const Case> failure_cases();
[[nodiscard]] std::span<const Case> datagram_cases();

}  // namespace urnic::interop
