#include "daemon/http/qp_path.h"

#include <charconv>

namespace urnic::daemon {

std::optional<QpPath> parse_qp_path(std::string_view path) {
    constexpr std::string_view kBegin = "/qp/";
    constexpr std::string_view kEvents = "/events";
    constexpr std::string_view kHex = "0x";
    constexpr std::uint32_t kMaxQpn = 0xffffff;
    if (!path.starts_with(kBegin)) {
        return std::nullopt;
    }
    path.remove_prefix(kBegin.size());
    QpPath made;
    made.is_events = path.ends_with(kEvents);
    path.remove_suffix(made.is_events ? kEvents.size() : 0);
    const std::size_t slash = path.find('/');
    if (slash == 0 || slash == std::string_view::npos) {
        return std::nullopt;
    }
    made.qp.device = path.substr(0, slash);
    std::string_view number = path.substr(slash + 1);
    const bool is_hex = number.starts_with(kHex);
    number.remove_prefix(is_hex ? kHex.size() : 0);
    const char* const end = number.data() + number.size();
    const auto parsed = std::from_chars(number.data(), end, made.qp.qpn, is_hex ? 16 : 10);
    if (parsed.ec != std::errc{} || parsed.ptr != end || made.qp.qpn > kMaxQpn) {
        return std::nullopt;
    }
    return made;
}

}  // namespace urnic::daemon
