#include "rnic/qp/sge_list.h"

#include <algorithm>
#include <cstring>

namespace urnic {

namespace {

/// Calls visit(key, addr, length) for each part of [offset, offset + length) of the list, in order, until one
/// returns false. Returns whether none did and the list covers the range.
template <typename Visitor>
bool for_each_part(std::span<const abi::Sge> list, std::uint64_t offset, std::uint64_t length,
                   Visitor&& visit) {
    for (const abi::Sge& sge : list) {
        if (length == 0) {
            return true;
        }
        if (offset >= sge.length) {
            offset -= sge.length;
            continue;
        }
        const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(sge.length - offset, length));
        if (!visit(sge.lkey, sge.addr + offset, part)) {
            return false;
        }
        length -= part;
        offset = 0;
    }
    return length == 0;
}

/// Of a list with any number of entries. Not inlined: the usual list has one.
[[gnu::noinline]] bool scatter_parts(const KeyTable& keys, std::uint32_t pd, std::span<const abi::Sge> list,
                                     std::uint64_t offset, std::span<const std::byte> payload) {
    const std::byte* from = payload.data();
    return for_each_part(
        list, offset, payload.size(), [&](std::uint32_t key, std::uint64_t addr, std::uint32_t length) {
            MemoryPiece piece;
            if (keys.resolve(key, pd, kAccessLocalWrite, addr, length, piece) != KeyTable::Verdict::kOk ||
                !write_piece(piece, from)) {
                return false;
            }
            from += length;
            return true;
        });
}

}  // namespace

bool gather(const KeyTable& keys, std::uint32_t pd, std::uint32_t access, std::span<const abi::Sge> list,
            std::uint64_t offset, std::uint32_t length_bytes, PieceList& pieces) {
    pieces.count = 0;
    return for_each_part(
        list, offset, length_bytes, [&](std::uint32_t key, std::uint64_t addr, std::uint32_t length) {
            MemoryPiece& piece = pieces.piece[pieces.count];
            if (keys.resolve(key, pd, access, addr, length, piece) != KeyTable::Verdict::kOk) {
                return false;
            }
            ++pieces.count;
            return true;
        });
}

bool scatter(const KeyTable& keys, std::uint32_t pd, std::span<const abi::Sge> list, std::uint64_t offset,
             std::span<const std::byte> payload) {
    if (list.size() == 1 && !payload.empty()) [[likely]] {
        const abi::Sge& sge = list[0];
        MemoryPiece piece;
        return offset <= sge.length && payload.size() <= sge.length - offset &&
               keys.resolve(sge.lkey, pd, kAccessLocalWrite, sge.addr + offset,
                            static_cast<std::uint32_t>(payload.size()), piece) == KeyTable::Verdict::kOk &&
               write_piece(piece, payload.data());
    }
    return scatter_parts(keys, pd, list, offset, payload);
}

bool may_write_all(const KeyTable& keys, std::uint32_t pd, std::span<const abi::Sge> list) {
    return std::all_of(list.begin(), list.end(), [&](const abi::Sge& sge) {
        MemoryPiece piece;
        return sge.length == 0 || keys.resolve(sge.lkey, pd, kAccessLocalWrite, sge.addr, sge.length,
                                               piece) == KeyTable::Verdict::kOk;
    });
}

void write_shared(const MemoryPiece& piece, const std::byte* from) {
    std::memmove(piece.direct, from, piece.length_bytes);
}

bool write_unmapped(const MemoryPiece& piece, const std::byte* from) {
    return piece.space != nullptr && piece.space->write(piece.va, from, piece.length_bytes);
}

}  // namespace urnic
