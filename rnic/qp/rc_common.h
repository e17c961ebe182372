// What requester, completer and responder of one RC QP have in common.
#pragma once

#include <cstdint>

#include "rnic/abi/control.h"
#include "rnic/qp/outbox.h"
#include "rnic/qp/qp.h"

namespace urnic {

struct RcCommon {
    explicit RcCommon(QpConfig& qp_config, Qp& qp) : config(qp_config), self(qp) {}

    QpConfig& config;
    Qp& self;
    QpState state = QpState::kReset;
    std::uint8_t mtu_shift = 8;
    std::uint32_t mtu_bytes = 256;
    abi::QpAttr attr{};
    wire::Path path{};

    /// From now on the QP only flushes; RcQp does that before its public call returns.
    void enter_error() { state = QpState::kErr; }

    /// Reports a completion; a CQ that overruns takes the QP to ERR with an event (IBA 10.10.2.4).
    void complete(Outbox& outbox, CompletionQueue& cq, const Completion& completion) {
        if (!outbox.complete(cq, completion)) [[unlikely]] {
            if (state != QpState::kErr) {
                outbox.event(self, AsyncEventType::kQpFatal);
            }
            enter_error();
        }
    }

    /// Headers of a packet to the peer.
    [[nodiscard]] wire::PacketHeader header(std::uint8_t operation, Psn psn) const {
        wire::PacketHeader header;
        header.opcode = static_cast<std::uint8_t>(wire::kServiceRc | operation);
        header.pkey = config.pkey;
        header.dest_qp = attr.dest_qp_num;
        header.psn = psn;
        return header;
    }

    /// PSNs that a message of `length_bytes` takes (IBA 9.7.2): at least one.
    [[nodiscard]] std::uint32_t packets_of(std::uint32_t length_bytes) const {
        return length_bytes == 0 ? 1 : ((length_bytes - 1) >> mtu_shift) + 1;
    }
};

}  // namespace urnic
