// BTH and the extended transport headers as tables (IBA 9.2, 9.3), and how to read those of any opcode.
#pragma once

#include <span>

#include "rnic/wire/fields.h"
#include "rnic/wire/headers.h"

namespace urnic::wire {

extern const HeaderTable kBthTable;

/// One extended header: the bit that the opcode table has for it, and its fields as members of PacketHeader.
struct ExtendedHeader {
    std::uint16_t mask;  // HeaderMask
    HeaderTable table;
};
/// All of them, in wire order.
[[nodiscard]] std::span<const ExtendedHeader> extended_headers();

/// Reads BTH and the extended headers that its opcode asks for. Returns the bytes that they take. When `wire`
/// ends too early it returns 0 and sets `cut_in` to the header that did not fit; what came before is read.
[[nodiscard]] std::size_t read_transport(std::span<const std::byte> wire, PacketHeader& header,
                                         const char*& cut_in);

/// "NAK remote access error" and the like; nullptr: reserved.
[[nodiscard]] const char* syndrome_name(std::uint64_t syndrome);

}  // namespace urnic::wire
