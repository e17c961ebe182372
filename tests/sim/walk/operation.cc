#include "tests/sim/walk/operation.h"

#include <algorithm>
#include <cstring>

namespace urnic::sim {

const std::byte* Operation::byte_at(std::uint64_t at) const {
    for (const Piece& piece : piece_list()) {
        if (at < piece.length) {
            return piece.data == nullptr ? nullptr : piece.data + at;
        }
        at -= piece.length;
    }
    return nullptr;
}

void copy_pieces(std::span<const Piece> from, std::byte* to) {
    for (const Piece& piece : from) {
        if (piece.length != 0) {
            std::memcpy(to, piece.data, piece.length);
            to += piece.length;
        }
    }
}

bool pieces_are(std::span<const Piece> pieces, const std::byte* bytes, std::size_t length) {
    for (const Piece& piece : pieces) {
        const std::size_t part = std::min<std::size_t>(piece.length, length);
        if (part != 0 && std::memcmp(piece.data, bytes, part) != 0) {
            return false;
        }
        bytes += part;
        length -= part;
    }
    return length == 0;
}

bool same_bytes(std::span<const Piece> a, std::span<const Piece> b, std::size_t length) {
    std::size_t a_offset = 0;
    std::size_t b_offset = 0;
    while (length != 0) {
        while (!a.empty() && a_offset == a.front().length) {
            a = a.subspan(1);
            a_offset = 0;
        }
        while (!b.empty() && b_offset == b.front().length) {
            b = b.subspan(1);
            b_offset = 0;
        }
        if (a.empty() || b.empty()) {
            return false;
        }
        const std::size_t part = std::min({a.front().length - a_offset, b.front().length - b_offset, length});
        if (std::memcmp(a.front().data + a_offset, b.front().data + b_offset, part) != 0) {
            return false;
        }
        a_offset += part;
        b_offset += part;
        length -= part;
    }
    return true;
}

}  // namespace urnic::sim
