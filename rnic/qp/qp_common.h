// What the parts of one QP have in common, whatever its transport service.
#pragma once

#include <cstdint>

#include "abi/control.h"
#include "rnic/qp/outbox.h"
#include "rnic/qp/qp.h"

namespace urnic {

struct QpCommon {
    explicit QpCommon(QpConfig& qp_config, Qp& qp) : config(qp_config), self(qp) {}

    QpConfig& config;
    Qp& self;
    QpState state = QpState::kReset;
    std::uint8_t mtu_shift = 8;
    std::uint32_t mtu_bytes = 256;
    abi::QpAttr attr{};
    wire::Path path{};
    wire::Gid peer_gid{};            // where a connection's packets come from; without a GRH the LID's
    bool last_wqe_reported = false;  // while in ERR

    [[nodiscard]] bool has_srq() const { return config.srq != nullptr || config.xrc_srqs != nullptr; }

    /// As in a new QP.
    void reset() {
        state = QpState::kReset;
        mtu_shift = 8;
        mtu_bytes = 256;
        attr = {};
        path = {};
        peer_gid = {};
        last_wqe_reported = false;
    }

    /// Takes the address vector in `attr`, which the caller has made `new_path` from. What has no GRH comes
    /// from a LID (IBA 9.6.1.2), which stands for a GID then.
    void use_path(const wire::Path& new_path) {
        path = new_path;
        const bool has_gid = attr.av.is_global != 0 || path.l3_offset != 0;
        peer_gid = has_gid ? reinterpret_cast<const wire::Gid&>(attr.av.dgid) : wire::lid_gid(attr.av.dlid);
    }
    /// Returns whether the P_Key table has the entry that `change` names, if it names one.
    [[nodiscard]] bool has_pkey(const abi::QpAttr& change) const {
        return (change.mask & kQpAttrPkeyIndex) == 0 || config.pkeys->has(change.pkey_index);
    }
    /// Takes the P_Key of attr.pkey_index: what is sent and received from now on has it.
    void use_pkey() { config.pkey = config.pkeys->entries[attr.pkey_index]; }

    /// From now on the QP only flushes; it does that before its public call returns.
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

    /// PSNs that a message of `length_bytes` takes (IBA 9.7.2): at least one.
    [[nodiscard]] std::uint32_t packets_of(std::uint32_t length_bytes) const {
        return length_bytes == 0 ? 1 : ((length_bytes - 1) >> mtu_shift) + 1;
    }
};

/// Who asks, when a packet for the QP names an R_Key, or a work request a window.
inline KeyUser key_user(const QpCommon& common) { return {common.config.pd, common.config.qp_num}; }

/// Flushed at one call, so that no application can hold its worker: the rest follows at the next.
inline constexpr std::uint32_t kFlushBatch = 512;

/// Requests are looked at in RTR, RTS and SQD, and where the send queue alone is in error (IBA 10.3.1).
constexpr bool is_responder_active(QpState state) {
    return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd ||
           state == QpState::kSqe;
}

/// A requester, and so responses, exist from RTS on (IBA 10.3.1).
constexpr bool is_requester_active(QpState state) { return state == QpState::kRts || state == QpState::kSqd; }

/// A connection has one peer: a packet from elsewhere is not for it, whatever its PSN (IBA 9.6.1.5).
inline bool is_from_peer(const QpCommon& common, const wire::PacketView& packet) {
    return wire::same_gid(packet.src_gid, common.peer_gid);
}

}  // namespace urnic
