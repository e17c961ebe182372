// Fields of layers that no table describes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/fields.h"

namespace urnic::decode {

/// A decimal number and the name that the value has; nullptr: none.
inline wire::DescribedField named_field(std::string name, std::uint64_t value, const char* value_name) {
    std::string text = std::to_string(value);
    if (value_name != nullptr) {
        text += " (";
        text += value_name;
        text += ')';
    }
    return {std::move(name), std::move(text), true, value};
}

/// A word in hexadecimal.
inline wire::DescribedField hex_field(std::string name, std::uint64_t value, unsigned digits = 8) {
    return {std::move(name), wire::hex_text(value, digits), true, value};
}

/// Octets as hexadecimal digits.
inline std::string octets_text(std::span<const std::byte> octets) {
    std::string text;
    for (const std::byte octet : octets) {
        text.append(wire::hex_text(std::to_integer<std::uint64_t>(octet), 2), 2);
    }
    return text;
}

/// The same on the line of a summary.
inline wire::DescribedField shown(wire::DescribedField field, bool is_shown = true) {
    field.is_shown = is_shown;
    return field;
}

}  // namespace urnic::decode
