// The opcode table (IBA table 38): for each BTH opcode the headers that follow and what the packet is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rnic/wire/headers.h"

namespace urnic::wire {

/// Bit mask of extended headers, in wire order.
enum HeaderMask : std::uint16_t {
    kHasRdeth = 1U << 0U,
    kHasDeth = 1U << 1U,
    kHasXrceth = 1U << 2U,
    kHasFeth = 1U << 3U,
    kHasReth = 1U << 4U,
    kHasAtomicEth = 1U << 5U,
    kHasAeth = 1U << 6U,
    kHasAtomicAck = 1U << 7U,
    kHasImm = 1U << 8U,
    kHasIeth = 1U << 9U,
    kHasCnpReserved = 1U << 10U,  // the 16 zero bytes of a CNP (annex A17)
};

/// What a packet is, as bits, so that the engines ask for properties and never list opcodes.
enum OpcodeFlags : std::uint16_t {
    kValid = 1U << 0U,
    kIsRequest = 1U << 1U,
    kIsSend = 1U << 2U,
    kIsWrite = 1U << 3U,
    kIsRead = 1U << 4U,
    kIsAtomic = 1U << 5U,
    kIsReadResponse = 1U << 6U,
    kIsAck = 1U << 7U,   // Acknowledge or ATOMIC Acknowledge
    kStarts = 1U << 8U,  // First or Only
    kEnds = 1U << 9U,    // Last or Only
    kHasPayload = 1U << 10U,
    kIsFlush = 1U << 11U,
    kIsAtomicWrite = 1U << 12U,
};

struct OpcodeInfo {
    const char* name;           // "RC SEND Only"
    std::uint16_t flags;        // OpcodeFlags
    std::uint16_t headers;      // HeaderMask
    std::uint8_t header_bytes;  // BTH included
};

/// Most bytes that BTH and the extended headers of one opcode can take (RD atomics).
inline constexpr std::size_t kMaxHeaderBytes = 12 + 4 + 8 + 28;

extern const std::array<OpcodeInfo, 256> kOpcodes;

/// The row of any opcode; flags 0 for reserved ones.
[[nodiscard]] inline const OpcodeInfo& opcode_info(std::uint8_t opcode) { return kOpcodes[opcode]; }

}  // namespace urnic::wire
