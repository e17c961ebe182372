// What requester, completer and responder of one RC or XRC QP have in common.
#pragma once

#include <cstdint>

#include "rnic/qp/qp_common.h"
#include "rnic/wire/blank_header.h"

namespace urnic {

struct RcCommon : QpCommon {
    RcCommon(QpConfig& qp_config, Qp& qp, QpType qp_type)
        : QpCommon(qp_config, qp),
          type(qp_type),
          service(qp_type == QpType::kRc ? wire::kServiceRc : wire::kServiceXrc),
          blank_header(qp_config.sends_mig_req ? wire::kBlankHeader : wire::kBlankHeaderWithoutMigReq) {}

    /// kRc, kXrcSend (no responder is at work) or kXrcRecv (no requester).
    const QpType type;
    const wire::Service service;
    const wire::PacketHeader& blank_header;

    /// Headers of a packet to the peer.
    [[nodiscard]] wire::PacketHeader header(std::uint8_t operation, Psn psn) const {
        wire::PacketHeader header = blank_header;
        header.opcode = static_cast<std::uint8_t>(service | operation);
        header.pkey = config.pkey;
        header.dest_qp = attr.dest_qp_num;
        header.psn = psn;
        return header;
    }
};

}  // namespace urnic
