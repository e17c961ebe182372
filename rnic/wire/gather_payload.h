// The payload of a packet, out of the pieces of memory that it lies in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/mem/address_space.h"
#include "rnic/wire/crc/crc32.h"

namespace urnic::wire {

/// Appends the payload at `to` and to the register `crc`. Returns whether all pieces could be read.
inline bool gather_payload(std::span<const MemoryPiece> pieces, std::byte* to, std::uint32_t& crc) {
    for (const MemoryPiece& piece : pieces) {
        if (piece.direct != nullptr) {
            crc = crc32_copy(crc, to, piece.direct, piece.length_bytes);
        } else if (piece.length_bytes != 0) {
            if (piece.space == nullptr || !piece.space->read(piece.va, to, piece.length_bytes)) {
                return false;
            }
            crc = crc32_update(crc, to, piece.length_bytes);
        }
        to += piece.length_bytes;
    }
    return true;
}

}  // namespace urnic::wire
