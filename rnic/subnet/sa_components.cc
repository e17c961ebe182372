#include "rnic/subnet/sa_components.h"

#include <algorithm>

#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/mad/attribute_layout.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

/// A record's components are its fields in their order, and gaps that count as well.
struct Components {
    std::uint16_t attribute_id;
    unsigned count;
    std::uint64_t reserved;
};
constexpr Components kComponents[] = {
    {mad::kNodeRecord, 15, component(1)},
    // Those behind GUIDCap are not numbered alike in all releases of the specification.
    {mad::kPortInfoRecord, 43, component(19)},
    {mad::kSmInfoRecord, 7, component(1)},
    // ServiceID has two.
    {mad::kPathRecord, 22, component(7)},
    {mad::kMcMemberRecord, 18, 0},
    {mad::kInformInfoRecord, 16, component(2) | component(6) | component(12) | component(14)},
};

const Components* find_components(std::uint16_t attribute_id) {
    const auto* found =
        std::find_if(std::begin(kComponents), std::end(kComponents),
                     [&](const Components& candidate) { return candidate.attribute_id == attribute_id; });
    return found == std::end(kComponents) ? nullptr : found;
}

bool bit(const std::byte* octets, std::size_t at) {
    return (std::to_integer<unsigned>(octets[at / 8]) >> (7 - at % 8) & 1U) != 0;
}

bool same_bits(const std::byte* a, const std::byte* b, std::size_t offset, std::size_t width) {
    for (std::size_t at = offset; at < offset + width; ++at) {
        if (bit(a, at) != bit(b, at)) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::uint64_t known_components(std::uint16_t attribute_id) {
    const Components* const components = find_components(attribute_id);
    return components == nullptr ? 0 : (component(components->count) - 1) & ~components->reserved;
}

bool components_match(std::uint16_t attribute_id, std::uint64_t mask, const std::byte* wanted,
                      const std::byte* record) {
    const Components* const components = find_components(attribute_id);
    if (components == nullptr) {
        return false;
    }
    unsigned number = 0;
    for (const mad::AttributePart& part :
         mad::attribute_parts(wire::kMadClassSubnetAdministration, attribute_id)) {
        for (const wire::Field& field : part.table->fields) {
            while ((components->reserved & component(number)) != 0) {
                ++number;
            }
            if (number >= components->count) {
                return true;
            }
            if ((mask & component(number)) != 0 &&
                !same_bits(wanted + part.offset_bytes, record + part.offset_bytes, field.bit_offset,
                           field.bit_width)) {
                return false;
            }
            ++number;
        }
    }
    return true;
}

}  // namespace urnic::subnet
