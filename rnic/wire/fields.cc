#include "rnic/wire/fields.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/address_text.h"

namespace urnic::wire {

namespace {

std::uint64_t load_bits(const std::byte* wire, std::size_t bit_offset, std::size_t bit_width) {
    std::uint64_t value = 0;
    while (bit_width != 0) {
        const std::size_t used = bit_offset % 8;
        const std::size_t taken = std::min(8 - used, bit_width);
        const auto byte = std::to_integer<std::uint32_t>(wire[bit_offset / 8]);
        value = value << taken | ((byte >> (8 - used - taken)) & ((1U << taken) - 1));
        bit_offset += taken;
        bit_width -= taken;
    }
    return value;
}

/// ORs the low `bit_width` bits of `value` into bytes that hold zero there.
void store_bits(std::byte* wire, std::size_t bit_offset, std::size_t bit_width, std::uint64_t value) {
    while (bit_width != 0) {
        const std::size_t used = bit_offset % 8;
        const std::size_t taken = std::min(8 - used, bit_width);
        const auto bits = static_cast<std::uint32_t>(value >> (bit_width - taken)) & ((1U << taken) - 1);
        wire[bit_offset / 8] |= static_cast<std::byte>(bits << (8 - used - taken));
        bit_offset += taken;
        bit_width -= taken;
    }
}

/// Equal neighbours of a list are shown once, with their number: tables are mostly that.
std::string list_text(const std::uint8_t* bytes, std::size_t count, std::size_t item_bytes) {
    std::string text;
    for (std::size_t at = 0; at < count;) {
        std::size_t end = at + item_bytes;
        while (end < count && std::memcmp(bytes + at, bytes + end, item_bytes) == 0) {
            end += item_bytes;
        }
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < item_bytes; ++i) {
            value = value << 8U | bytes[at + i];
        }
        text += text.empty() ? "" : " ";
        text +=
            item_bytes == 1 ? std::to_string(value) : hex_text(value, static_cast<unsigned>(item_bytes) * 2);
        if (const std::size_t times = (end - at) / item_bytes; times != 1) {
            text += " x" + std::to_string(times);
        }
        at = end;
    }
    return text;
}

/// What a name has that is no printable ASCII is a point.
std::string name_text(const std::uint8_t* bytes, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count && bytes[i] != 0; ++i) {
        text += bytes[i] >= 0x20 && bytes[i] < 0x7f ? static_cast<char>(bytes[i]) : '.';
    }
    return text;
}

const std::byte* member_of(const Field& field, const void* object) {
    return static_cast<const std::byte*>(object) + field.member_offset;
}

/// Hexadecimal; a long run of zeros at the end is counted, not shown: private data is mostly that.
std::string bytes_text(const std::uint8_t* bytes, std::size_t count) {
    std::size_t shown = count;
    while (shown != 0 && bytes[shown - 1] == 0) {
        --shown;
    }
    constexpr std::size_t kFewZeros = 4;
    if (count - shown <= kFewZeros) {
        shown = count;
    }
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
        text.append(hex_text(bytes[i], 2), 2);
    }
    if (shown != count) {
        text += shown == 0 ? "" : " + ";
        text += std::to_string(count - shown);
        text += " zero bytes";
    }
    return text;
}

}  // namespace

void read_fields(const HeaderTable& table, const std::byte* wire, void* object) {
    for (const Field& field : table.fields) {
        std::byte* member = static_cast<std::byte*>(object) + field.member_offset;
        if (field.is_bytes()) {
            std::memcpy(member, wire + field.bit_offset / 8, field.member_bytes);
        } else {
            // The low bytes come first on the only machines this runs on (x86-64).
            const std::uint64_t value = load_bits(wire, field.bit_offset, field.bit_width);
            std::memcpy(member, &value, field.member_bytes);
        }
    }
}

void write_fields(const HeaderTable& table, const void* object, std::byte* wire) {
    std::memset(wire, 0, table.length_bytes);
    for (const Field& field : table.fields) {
        if (field.is_bytes()) {
            std::memcpy(wire + field.bit_offset / 8, member_of(field, object), field.member_bytes);
        } else {
            store_bits(wire, field.bit_offset, field.bit_width, field_number(field, object));
        }
    }
}

std::uint64_t field_number(const Field& field, const void* object) {
    std::uint64_t value = 0;
    std::memcpy(&value, member_of(field, object), std::min<std::size_t>(field.member_bytes, sizeof value));
    return value;
}

std::string hex_text(std::uint64_t value, unsigned digits) {
    constexpr const char* kDigits = "0123456789abcdef";
    std::string text;
    for (; value != 0 || text.size() < digits; value >>= 4U) {
        text += kDigits[value & 0xfU];
    }
    text += "x0";
    std::reverse(text.begin(), text.end());
    return text;
}

namespace {

template <class Address>
Address address_in(const std::uint8_t* bytes) {
    Address address{};
    std::copy_n(bytes, address.size(), address.begin());
    return address;
}

}  // namespace

std::string field_text(const Field& field, const void* object) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(member_of(field, object));
    std::string text;
    switch (field.format) {
        case FieldFormat::kMac:
            return mac_text(address_in<Mac>(bytes));
        case FieldFormat::kIpv4:
            return ipv4_text(address_in<Ipv4Address>(bytes));
        case FieldFormat::kGid:
            return gid_text(address_in<Gid>(bytes));
        case FieldFormat::kBytes:
            return bytes_text(bytes, field.member_bytes);
        case FieldFormat::kText:
            return name_text(bytes, field.member_bytes);
        case FieldFormat::kList8:
            return list_text(bytes, field.member_bytes, 1);
        case FieldFormat::kList16:
            return list_text(bytes, field.member_bytes, 2);
        case FieldFormat::kList64:
            return list_text(bytes, field.member_bytes, 8);
        case FieldFormat::kHex:
            text = hex_text(field_number(field, object), (field.bit_width + 3U) / 4);
            break;
        case FieldFormat::kDecimal:
            text = std::to_string(field_number(field, object));
            break;
    }
    if (field.value_name != nullptr) {
        const char* name = field.value_name(field_number(field, object));
        if (name != nullptr) {
            text += " (";
            text += name;
            text += ')';
        }
    }
    return text;
}

}  // namespace urnic::wire
