// Scatter/gather lists of work requests: checked against the key table, cut into pieces, filled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/queues.h"
#include "rnic/mem/address_space.h"
#include "rnic/mem/key_table.h"
#include "rnic/queue/work_queue.h"
#include "rnic/wire/crc/copy_payload.h"
#include "rnic/wire/local_packet.h"

namespace urnic {

/// Pieces that one packet's payload is gathered from. Only the first `count` have a value: clearing the
/// others would take a tenth of a small packet's time.
struct PieceList {
    PieceList() {}
    union {
        std::array<MemoryPiece, abi::kMaxSge> piece;
    };
    std::uint32_t count = 0;
    [[nodiscard]] std::span<const MemoryPiece> span() const { return {piece.data(), count}; }
};

/// Finds bytes [offset, offset + length) of the list. `access` as in KeyTable::resolve (0: local read).
/// Returns whether key, PD, access and range of each entry allow it and the list is long enough.
[[nodiscard]] bool gather(const KeyTable& keys, std::uint32_t pd, std::uint32_t access,
                          std::span<const abi::Sge> list, std::uint64_t offset, std::uint32_t length_bytes,
                          PieceList& pieces);

/// Finds bytes [offset, offset + length) of what a send WQE sends: its inline data or its list.
[[nodiscard]] inline bool gather_payload_of(const SendWork& work, const KeyTable& keys, std::uint32_t pd,
                                            std::uint64_t offset, std::uint32_t length_bytes,
                                            PieceList& pieces) {
    if (length_bytes == 0) {
        return true;
    }
    if (work.inline_data != nullptr) {
        // The bytes of a piece that is sent are only read.
        pieces.piece[0].direct = const_cast<std::byte*>(work.inline_data) + offset;
        pieces.piece[0].length_bytes = length_bytes;
        pieces.piece[0].key = 0;
        pieces.count = 1;
        return true;
    }
    if (work.num_sge != 1) [[unlikely]] {
        return gather(keys, pd, 0, {work.sge, work.num_sge}, offset, length_bytes, pieces);
    }
    const abi::Sge& sge = work.sge[0];
    pieces.count = 1;
    return offset <= sge.length && length_bytes <= sge.length - offset &&
           keys.resolve(sge.lkey, pd, 0, sge.addr + offset, length_bytes, pieces.piece[0]) ==
               KeyTable::Verdict::kOk;
}

/// Writes `payload` at `offset` of the list; needs local write access. Returns whether all of it
/// was written; not if it is not allowed, has no room or the memory is unmapped, and then some of it may have
/// been.
[[nodiscard]] bool scatter(const KeyTable& keys, std::uint32_t pd, std::span<const abi::Sge> list,
                           std::uint64_t offset, std::span<const std::byte> payload);

/// Returns whether every entry may be written in full: what a READ or an atomic asks of its local list before
/// the request goes out (IBA 10.6.3).
[[nodiscard]] bool may_write_all(const KeyTable& keys, std::uint32_t pd, std::span<const abi::Sge> list);

/// write_piece() where both lie in the same memory of an application.
void write_shared(const MemoryPiece& piece, const std::byte* from);
/// write_piece() where the piece is not mapped here.
[[nodiscard]] bool write_unmapped(const MemoryPiece& piece, const std::byte* from);

/// Copies `from` into a resolved piece of the same length. Returns whether the memory is still there.
[[nodiscard]] [[gnu::always_inline]] inline bool write_piece(const MemoryPiece& piece,
                                                             const std::byte* from) {
    if (piece.direct == nullptr) [[unlikely]] {
        return write_unmapped(piece, from);
    }
    // Payload of a packet that is no frame lies in memory of an application, perhaps the same.
    const auto distance = static_cast<std::uint64_t>(piece.direct - from);
    if (piece.length_bytes >= wire::kLeastReferredBytes &&
        distance + piece.length_bytes < std::uint64_t{2} * piece.length_bytes) [[unlikely]] {
        write_shared(piece, from);
    } else {
        wire::copy_payload(piece.direct, from, piece.length_bytes);
    }
    return true;
}

}  // namespace urnic
