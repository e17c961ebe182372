/// Whether two headers say the same.
#pragma once

#include <algorithm>

#include "ulp/rpcrdma/codec/header.h"

namespace urnic::rpcrdma {

inline bool has_equal_fields(const ChunkLists& a, const ChunkLists& b) {
    if (!std::ranges::equal(a.reads(), b.reads()) || a.write_chunk_count() != b.write_chunk_count() ||
        a.has_reply_chunk() != b.has_reply_chunk() || !std::ranges::equal(a.reply_chunk(), b.reply_chunk())) {
        return false;
    }
    for (std::size_t chunk = 0; chunk < a.write_chunk_count(); ++chunk) {
        if (!std::ranges::equal(a.write_chunk(chunk), b.write_chunk(chunk))) {
            return false;
        }
    }
    return true;
}

/// All but `size`, which only a decoded header has.
inline bool has_equal_fields(const Header& a, const Header& b) {
    return a.xid == b.xid && a.version == b.version && a.credits == b.credits && a.proc == b.proc &&
           a.direction == b.direction && a.inv_handle == b.inv_handle && a.error == b.error &&
           a.option == b.option && std::ranges::equal(a.body, b.body) && has_equal_fields(a.chunks, b.chunks);
}

}  // namespace urnic::rpcrdma
