#include "rnic/qp/paced_outbox.h"

#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic {

bool PacedOutbox::transmit(const wire::Path& path, const wire::PacketHeader& header,
                           std::span<const MemoryPiece> pieces) {
    if (!outbox_.transmit(path, header, pieces)) {
        return false;
    }
    std::uint64_t payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        payload_bytes += piece.length_bytes;
    }
    payload_bytes += -payload_bytes & 3U;  // pad bytes
    rate_.sent(now_, clock_,
               static_cast<std::uint32_t>(path.length + wire::opcode_info(header.opcode).header_bytes +
                                          payload_bytes + wire::kIcrcBytes));
    has_sent_ = true;
    return true;
}

bool PacedOutbox::finish_round(bool more) {
    if (!more || rate_.may_send(clock_)) {
        return more;
    }
    rate_.wait(now_, clock_);
    return outbox_.room() == 0;  // an acknowledgement may wait for room
}

}  // namespace urnic
