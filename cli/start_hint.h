// What to do about a daemon that does not start, where its last words do not say it themselves.
#pragma once

#include <string>
#include <string_view>

namespace urnic::cli {

/// The name of this system: "Debian GNU/Linux 12 (bookworm)" (os-release(5)).
[[nodiscard]] std::string system_name();

/// `said`: all that came from the program. Empty: it said what to do, if anything helps.
[[nodiscard]] std::string start_hint(std::string_view said);

}  // namespace urnic::cli
