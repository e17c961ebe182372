// What the data of a MAD consists of, by class and attribute.
#pragma once

#include <cstdint>
#include <span>

#include "rnic/wire/fields.h"

namespace urnic::wire::mad {

/// One header of the data, and where it begins there.
struct AttributePart {
    const HeaderTable* table;
    std::uint16_t offset_bytes;
};

/// Empty: the class has no such attribute, or one whose data is opaque. Both subnet classes have the same.
[[nodiscard]] std::span<const AttributePart> attribute_parts(std::uint8_t mgmt_class,
                                                             std::uint16_t attribute_id);
/// Octets of the data that the parts take.
[[nodiscard]] std::size_t attribute_bytes(std::span<const AttributePart> parts);
/// Where the data of a class's MADs begins; 0: unknown. Of directed route SMPs where SmpDirected::data does.
[[nodiscard]] std::size_t attribute_offset(std::uint8_t mgmt_class);

}  // namespace urnic::wire::mad
