// Headers as tables: each field's place on the wire (bit offset and width, first bit of the first byte is 0)
// and its member in a C++ structure. Reading, writing and printing of a header all follow from its table.
// For everything but the packet path of the RNIC, whose codec (parse.cc, build.cc) is written for speed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace urnic::wire {

/// How a field's value is shown to a person.
enum class FieldFormat : std::uint8_t {
    kDecimal,
    kHex,
    kMac,
    kIpv4,
    kGid,
    kBytes,
    kText,    // octets of a name, up to the first zero
    kList8,   // numbers of one octet, decimal: ports
    kList16,  // of two and of eight octets, big-endian, hexadecimal: P_Keys, port masks, GUIDs
    kList64,
};

/// The name of a value, nullptr when it has none.
using ValueName = const char* (*)(std::uint64_t value);

struct Field {
    const char* name;
    std::uint16_t bit_offset;
    std::uint16_t bit_width;
    std::uint16_t member_offset;
    std::uint16_t member_bytes;
    FieldFormat format;
    ValueName value_name;

    /// Whole bytes copied as they are (addresses, private data), in contrast to a number in host order.
    [[nodiscard]] constexpr bool is_bytes() const {
        return format != FieldFormat::kDecimal && format != FieldFormat::kHex;
    }
};

/// One header: its name, its length on the wire and its fields. Bits that no field covers are reserved: they
/// are written as zero and not looked at when read (IBA 1.5.3).
struct HeaderTable {
    const char* name;
    std::size_t length_bytes;
    std::span<const Field> fields;
};

/// Reads all fields of `table` from `wire` (table.length_bytes long) into the structure at `object`.
void read_fields(const HeaderTable& table, const std::byte* wire, void* object);
/// Writes the header at `wire` whole, reserved bits as zero.
void write_fields(const HeaderTable& table, const void* object, std::byte* wire);

/// The value of a field that is a number.
[[nodiscard]] std::uint64_t field_number(const Field& field, const void* object);
/// The value for a person: "0x0000ffff", "12", "fe80::1", "0x04 RC SEND Only".
[[nodiscard]] std::string field_text(const Field& field, const void* object);

/// "0x" and at least `digits` hexadecimal digits.
[[nodiscard]] std::string hex_text(std::uint64_t value, unsigned digits);

/// For static_assert beside each table: fields lie in wire order inside the header, do not overlap, and fit
/// their members.
[[nodiscard]] constexpr bool well_formed(std::span<const Field> fields, std::size_t length_bytes) {
    std::size_t end = 0;
    for (const Field& field : fields) {
        const bool fits = field.is_bytes() ? field.bit_offset % 8 == 0 && field.bit_width % 8 == 0 &&
                                                 field.member_bytes * 8U == field.bit_width
                                           : field.bit_width <= field.member_bytes * 8U &&
                                                 (field.member_bytes == 1 || field.member_bytes == 2 ||
                                                  field.member_bytes == 4 || field.member_bytes == 8);
        if (!fits || field.bit_width == 0 || field.bit_offset < end) {
            return false;
        }
        end = std::size_t{field.bit_offset} + field.bit_width;
    }
    return end <= length_bytes * 8;
}

}  // namespace urnic::wire

// A table's row: the member gives the name (unless it has a label of its own), the place in memory and its
// size.
// NOLINTBEGIN(bugprone-macro-parentheses): a member designator cannot stand in parentheses
#define URNIC_WIRE_FIELD(Struct, member, bit_offset, bit_width, format) \
    URNIC_WIRE_LABELLED(#member, Struct, member, bit_offset, bit_width, format, nullptr)
#define URNIC_WIRE_NAMED(Struct, member, bit_offset, bit_width, format, value_name) \
    URNIC_WIRE_LABELLED(#member, Struct, member, bit_offset, bit_width, format, value_name)
#define URNIC_WIRE_LABELLED(label, Struct, member, bit_offset, bit_width, format, value_name) \
    ::urnic::wire::Field {                                                                    \
        label, bit_offset, bit_width, offsetof(Struct, member),                               \
            sizeof(static_cast<Struct*>(nullptr)->member), format, value_name                 \
    }
// NOLINTEND(bugprone-macro-parentheses)
