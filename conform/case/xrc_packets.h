// Packets of XRC (annex A14): RC's with opcodes of their own, and requests with the number of an SRQ.
#pragma once

#include <cstddef>
#include <cstdint>

#include "conform/case/script_packet.h"

namespace urnic::conform {

// Of the scripts about XRC.
inline constexpr std::uint32_t kXrcMtu = 256;
inline constexpr std::size_t kThirdPacket = std::size_t{2} * kXrcMtu;  // where its payload begins

/// A response, or a request for that SRQ.
inline ScriptPacket xrc(ScriptPacket packet, std::uint32_t srq_number = 0) {
    return packet.service(wire::kServiceXrc).srq(srq_number);
}

}  // namespace urnic::conform
