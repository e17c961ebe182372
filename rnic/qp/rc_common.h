// What requester, completer and responder of one RC QP have in common.
#pragma once

#include <cstdint>

#include "rnic/qp/qp_common.h"

namespace urnic {

struct RcCommon : QpCommon {
    using QpCommon::QpCommon;

    /// Headers of a packet to the peer.
    [[nodiscard]] wire::PacketHeader header(std::uint8_t operation, Psn psn) const {
        wire::PacketHeader header;
        header.opcode = static_cast<std::uint8_t>(wire::kServiceRc | operation);
        header.pkey = config.pkey;
        header.dest_qp = attr.dest_qp_num;
        header.psn = psn;
        return header;
    }
};

}  // namespace urnic
