// Which Host headers a server of the loopback address answers.
#pragma once

#include <string_view>

namespace urnic::daemon {

/// Returns whether a Host header ("127.0.0.1:8471", "[::1]", "localhost") names an address or localhost. A
/// browser that was led here by a foreign name that resolves to the loopback address (DNS rebinding) sends
/// that name.
[[nodiscard]] bool is_numeric_or_localhost(std::string_view host);

}  // namespace urnic::daemon
