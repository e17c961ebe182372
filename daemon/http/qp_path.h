// Addresses of the pages of single QPs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace urnic::daemon {

/// A QP of an RNIC, as the page names it.
struct TracedQp {
    std::string device;
    std::uint32_t qpn = 0;
    friend bool operator==(const TracedQp&, const TracedQp&) = default;
};

struct QpPath {
    TracedQp qp;
    bool is_events = false;  // what the page asks for, not the page
};

/// "/qp/urnic0/0x11" or "/qp/urnic0/17", and the same with "/events". Whether there is such a QP is another
/// question.
[[nodiscard]] std::optional<QpPath> parse_qp_path(std::string_view path);

}  // namespace urnic::daemon
