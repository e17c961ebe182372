// A header as a layer of text, from its table.
#pragma once

#include <span>
#include <vector>

#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/fields.h"

namespace urnic::wire {

[[nodiscard]] inline Layer layer_of(const HeaderTable& table, const void* object) {
    Layer layer{table.name, {}};
    for (const Field& field : table.fields) {
        const bool is_number = !field.is_bytes();
        layer.fields.push_back(
            {field.name, field_text(field, object), is_number, is_number ? field_number(field, object) : 0});
    }
    return layer;
}

/// A header at the front of `bytes`; the rest of them is left in `bytes`. Returns whether they hold it.
template <class T>
bool take_layer(const HeaderTable& table, std::span<const std::byte>& bytes, T& object,
                std::vector<Layer>& layers) {
    if (bytes.size() < table.length_bytes) {
        return false;
    }
    read_fields(table, bytes.data(), &object);
    layers.push_back(layer_of(table, &object));
    bytes = bytes.subspan(table.length_bytes);
    return true;
}

}  // namespace urnic::wire
