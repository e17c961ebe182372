#include "rnic/qp/unreliable/uc_qp.h"

namespace urnic {

UcQp::UcQp(const QpConfig& config)
    : UnreliableQp(config, QpType::kUc, wire::kServiceUc), responder_(common_) {}

void UcQp::reset_responder(Psn first_psn) {
    responder_.reset(first_psn);
    comm_established_ = false;
}

QpPsns UcQp::psns() const {
    QpPsns psns = UnreliableQp::psns();
    if (is_responder_active(common_.state)) {
        psns.rq_psn = responder_.expected_psn().value();
    }
    return psns;
}

void UcQp::handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) {
    if (packet.header.opcode == wire::kCnp) [[unlikely]] {
        handle_cnp(now, common_, packet, outbox);
        return;
    }
    if (!is_acceptable(packet)) [[unlikely]] {
        return;
    }
    if (!is_from_peer(common_, packet)) [[unlikely]] {
        ++config_.counters->drop_not_for_us;
        return;
    }
    if (has_ce_mark(packet)) [[unlikely]] {
        notification_point_.on_ce_mark(now, common_, packet, outbox);
    }
    if (common_.state == QpState::kRtr && !comm_established_) [[unlikely]] {
        comm_established_ = true;
        outbox.event(*this, AsyncEventType::kCommEst);
    }
    responder_.handle_request(packet, wire::opcode_info(packet.header.opcode), outbox);
    after_call(outbox);
}

}  // namespace urnic
