// The pages of `urnic status`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace urnic::cli {

enum class StatusView { kSummary, kQps, kMrs, kCm, kNetworks, kCounters };

/// The view of that name: "qps", "mrs", "cm", "networks", "counters"; nothing: there is none.
[[nodiscard]] std::optional<StatusView> status_view_named(std::string_view name);

/// The page. `earlier`: an answer of the same daemon, `seconds` before `status`, from which rates and what is
/// wrong are reckoned; null: they are since the daemon's start. `device`: of that RNIC alone; empty: of all.
/// Throws LaunchError when there is no such RNIC, or the daemon's answer is not that of this release.
[[nodiscard]] std::string status_page(StatusView view, const std::string& device,
                                      const nlohmann::ordered_json& status,
                                      const nlohmann::ordered_json& earlier, double seconds);

}  // namespace urnic::cli
