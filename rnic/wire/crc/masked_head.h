// What an ICRC begins with (IBA 7.8.1, annex A17.3.3): eight bytes of ones, which stand for an LRH, then
// headers of which some bytes count as ones.
#pragma once

#include <cstddef>

namespace urnic::wire {

struct MaskedHead {
    const std::byte* bytes;    // the IP header and what follows
    const std::byte* ones;     // as long: the bits that count as set
    std::size_t length_bytes;  // 16 or more, a multiple of four
};

}  // namespace urnic::wire
