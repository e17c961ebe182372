// How the command line names an RNIC or one of its QPs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace urnic::cli {

/// "DEVICE" (0) or "DEVICE/QPN"; a QPN in decimal or 0x... hexadecimal. Throws LaunchError.
[[nodiscard]] std::pair<std::string, std::uint32_t> split_target(const std::string& target);

}  // namespace urnic::cli
