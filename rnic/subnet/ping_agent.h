// Answers OpenIB's ping, a vendor class (0x32) with the OUI 0x001405: what `ibping` asks for.
#pragma once

#include <string_view>

#include "rnic/subnet/smp.h"

namespace urnic::subnet {

inline constexpr std::uint8_t kOpenIbPingClass = 0x32;

/// Returns whether the MAD is the response now: `name` in its data. Other OUIs and versions, and what is no
/// Get, are not answered.
[[nodiscard]] bool answer_ping(MadRef mad, std::string_view name);

}  // namespace urnic::subnet
