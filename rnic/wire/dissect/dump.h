// Packets as text: one line, or every field.
#pragma once

#include <span>
#include <string>

#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/packet.h"

namespace urnic::wire {

/// One line without a newline: who to whom, what, the fields that tell packets apart, the verdicts. `upper`:
/// layers that the caller found in the payload.
[[nodiscard]] std::string summary(const Packet& packet, std::span<const Layer> upper = {});

/// Every layer and field, a line each layer's name and each field, then the payload in hexadecimal. Each line
/// begins with `indent` and ends with a newline.
[[nodiscard]] std::string dump(const Packet& packet, const std::string& indent,
                               std::span<const Layer> upper = {});

}  // namespace urnic::wire
