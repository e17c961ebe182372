// Packets as text: one line, or every field.
#pragma once

#include <string>

#include "rnic/wire/dissect/packet.h"

namespace urnic::wire {

/// One line without a newline: who to whom, what, the fields that tell packets apart, the verdicts.
[[nodiscard]] std::string summary(const Packet& packet);

/// Every layer and field, a line each layer's name and each field, then the payload in hexadecimal. Each line
/// begins with `indent` and ends with a newline.
[[nodiscard]] std::string dump(const Packet& packet, const std::string& indent);

}  // namespace urnic::wire
