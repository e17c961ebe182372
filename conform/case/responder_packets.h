// Packets that scripts of the responder have in common.
#pragma once

#include <cstdint>

#include "conform/case/script_packet.h"
#include "rnic/wire/opcodes.h"

namespace urnic::conform {

/// ACK from a QP whose receive queue has `credits` (a credit code; 0 without receives) to offer.
inline ScriptPacket acked(std::uint32_t psn, std::uint32_t msn, std::uint8_t credits = 0) {
    return ScriptPacket(wire::kAcknowledge, psn).msn(msn).credits(credits);
}

/// A request that does not ask for an acknowledgement.
inline ScriptPacket unasked(ScriptPacket packet) { return packet.ackreq(false); }

}  // namespace urnic::conform
