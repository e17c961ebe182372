#include "rnic/qp/unreliable/unreliable_qp.h"

#include "rnic/qp/completions.h"
#include "rnic/qp/modify.h"
#include "rnic/qp/paced_outbox.h"

namespace urnic {

UnreliableQp::UnreliableQp(const QpConfig& config, QpType type, wire::Service service)
    : Qp(config), common_(config_, *this), type_(type), service_(service), requester_(common_, service) {}

int UnreliableQp::modify(TimeNs /*now*/, const abi::QpAttr& attr, const wire::Path& path, Outbox& outbox) {
    const QpState next = target_state(common_.state, attr);
    const int error = take_attributes(common_, type_, attr, path);
    if (error == 0) {
        enter_state(next, outbox);
    }
    return error;
}

void UnreliableQp::enter_state(QpState next, Outbox& outbox) {
    const QpState before = common_.state;
    if (next == QpState::kReset) {
        flow_.reset();
        common_.reset();
        requester_.reset();
        reset_responder(Psn(0));
        drain_reported_ = false;
        config_.sq.clear();
        config_.rq.clear();
        return;
    }
    common_.state = next;
    if (next == QpState::kErr) {
        (void)flush(outbox);
    } else if (next == QpState::kRtr) {
        reset_responder(Psn(common_.attr.rq_psn));
    } else if (before == QpState::kRtr && next == QpState::kRts) {
        requester_.set_psn(Psn(common_.attr.sq_psn));
    } else if (next == QpState::kSqd) {
        drain_reported_ = drain_reported_ && before == QpState::kSqd;
        report_drained(outbox);
    }
}

void UnreliableQp::query(abi::QpAttr& attr) const {
    report_attributes(common_, requester_.drained(), psns(), attr);
}

QpPsns UnreliableQp::psns() const {
    const bool sends =
        common_.state == QpState::kRts || common_.state == QpState::kSqd || common_.state == QpState::kSqe;
    return {common_.attr.rq_psn, sends ? requester_.next_psn().value() : common_.attr.sq_psn};
}

bool UnreliableQp::is_acceptable(const wire::PacketView& packet) const {
    Counters& counters = *config_.counters;
    if (!is_responder_active(common_.state)) {
        ++counters.drop_qp_state;
        return false;
    }
    if (!wire::pkeys_match(packet.header.pkey, config_.pkey)) {
        ++counters.drop_pkey;
        return false;
    }
    const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
    if ((packet.header.opcode & wire::kServiceMask) != service_ || (info.flags & wire::kIsRequest) == 0) {
        ++counters.drop_opcode;
        if (packet.header.opcode == wire::kCnp) {
            ++counters.rp_cnp_ignored;
        }
        return false;
    }
    return true;
}

bool UnreliableQp::progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    bool more = false;
    if (common_.state == QpState::kRts || common_.state == QpState::kSqd) [[likely]] {
        // Of a datagram the path is not known yet.
        if (service_ != wire::kServiceUd && outbox.defer_if_paused(common_.path)) [[unlikely]] {
            more = false;
        } else if (flow_.is_limited()) [[unlikely]] {
            PacedOutbox paced(outbox, flow_, now);
            more = paced.finish_round(requester_.progress(max_packets, paced));
        } else {
            more = requester_.progress(max_packets, outbox);
        }
    }
    if (common_.state == QpState::kSqd) [[unlikely]] {
        report_drained(outbox);
    }
    if (common_.state == QpState::kSqe) [[unlikely]] {
        more = requester_.flush(kFlushBatch, outbox);
    }
    if (common_.state == QpState::kErr) [[unlikely]] {
        more = flush(outbox);
    }
    return more;
}

void UnreliableQp::after_call(Outbox& outbox) {
    if (common_.state == QpState::kErr) [[unlikely]] {
        (void)flush(outbox);
    }
}

bool UnreliableQp::flush(Outbox& outbox) {
    const bool more_sends = requester_.flush(kFlushBatch, outbox);
    RecvWqe none;
    RecvWqe* const taken = current_recv_wqe();
    const bool more_receives = flush_receives(common_, taken != nullptr ? *taken : none, kFlushBatch, outbox);
    return more_sends || more_receives;
}

void UnreliableQp::report_drained(Outbox& outbox) {
    if (requester_.drained() && !drain_reported_) {
        drain_reported_ = true;
        if (common_.attr.en_sqd_async_notify != 0) {
            outbox.event(*this, AsyncEventType::kSqDrained);
        }
    }
}

}  // namespace urnic
