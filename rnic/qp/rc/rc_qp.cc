#include "rnic/qp/rc/rc_qp.h"

#include <algorithm>

#include "rnic/qp/modify.h"
#include "rnic/qp/paced_outbox.h"

namespace urnic {

namespace {

// A reserved opcode is a request that the responder refuses (IBA 9.7.4.1.3).
constexpr bool is_request(const wire::OpcodeInfo& info) {
    return (info.flags & wire::kIsRequest) != 0 || (info.flags & wire::kValid) == 0;
}

}  // namespace

RcQp::RcQp(const QpConfig& config, QpType type)
    : Qp(config),
      common_(config_, *this, type),
      send_state_(common_),
      requester_(common_, send_state_),
      completer_(common_, send_state_),
      responder_(common_, notification_point_) {
    reset();
}

void RcQp::reset() {
    clear_reorder_buffers();
    flow_.reset();
    common_.reset();
    send_state_.reset(Psn(0));
    requester_.reset();
    completer_.reset();
    responder_.reset(Psn(0));
    comm_established_ = false;
    drain_reported_ = false;
}

int RcQp::modify(TimeNs now, const abi::QpAttr& attr, const wire::Path& path, Outbox& outbox) {
    const QpState next = target_state(common_.state, attr);
    const int error = take_attributes(common_, common_.type, attr, path);
    if (error == 0) {
        enter_state(next, now, outbox);
    }
    return error;
}

void RcQp::enter_state(QpState next, TimeNs now, Outbox& outbox) {
    const QpState before = common_.state;
    if (next == QpState::kReset) {
        reset();
        config_.sq.clear();
        config_.rq.clear();
        return;
    }
    common_.state = next;
    if (next == QpState::kErr) {
        responder_.drop_responses();
        (void)flush(outbox);
    } else if (next == QpState::kRtr) {
        responder_.reset(Psn(common_.attr.rq_psn));
    } else if (before == QpState::kRtr && next == QpState::kRts) {
        send_state_.reset(Psn(common_.attr.sq_psn));
    } else if (next == QpState::kSqd) {
        drain_reported_ = drain_reported_ && before == QpState::kSqd;
        report_drained(outbox);
    } else if (before == QpState::kSqd && next == QpState::kRts) {
        // Attributes of the requester may have changed; nothing is outstanding after a full drain.
        send_state_.on_progress(now, outbox);
    }
}

void RcQp::query(abi::QpAttr& attr) const { report_attributes(common_, requester_.drained(), psns(), attr); }

QpPsns RcQp::psns() const {
    return {is_responder_active(common_.state) ? responder_.expected_psn().value() : common_.attr.rq_psn,
            is_requester_active(common_.state) ? send_state_.window.next_psn().value() : common_.attr.sq_psn};
}

bool RcQp::is_acceptable(const wire::PacketView& packet, const wire::OpcodeInfo& info) const {
    Counters& counters = *config_.counters;
    if (is_request(info) ? !is_responder_active(common_.state) : !is_requester_active(common_.state)) {
        ++counters.drop_qp_state;
        return false;
    }
    if (!wire::pkeys_match(packet.header.pkey, config_.pkey)) {
        ++counters.drop_pkey;
        return false;
    }
    const QpType one_way = is_request(info) ? QpType::kXrcSend : QpType::kXrcRecv;
    if ((packet.header.opcode & wire::kServiceMask) != common_.service || common_.type == one_way) {
        ++counters.drop_opcode;
        return false;
    }
    if (!is_from_peer(common_, packet)) {
        ++counters.drop_not_for_us;
        return false;
    }
    return true;
}

void RcQp::handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) {
    const wire::OpcodeInfo& info = wire::opcode_info(packet.header.opcode);
    if (packet.header.opcode == wire::kCnp) [[unlikely]] {
        handle_cnp(now, common_, packet, outbox);
        return;
    }
    if (!is_acceptable(packet, info)) [[unlikely]] {
        return;
    }
    if (has_ce_mark(packet)) [[unlikely]] {
        notification_point_.on_ce_mark(now, common_, packet, outbox);
    }
    if (is_request(info)) {
        if (common_.state == QpState::kRtr && !comm_established_) [[unlikely]] {
            comm_established_ = true;
            outbox.event(*this, AsyncEventType::kCommEst);
        }
        responder_.handle_request(now, packet, info, outbox);
    } else {
        completer_.handle_response(now, packet, info, outbox);
    }
    after_call(outbox);
}

void RcQp::handle_timeout(TimeNs now, Outbox& outbox) {
    if (flow_.deadline() <= now) [[unlikely]] {
        flow_.on_timer(now, outbox.clock(now));
    }
    if (!is_requester_active(common_.state) || now < send_state_.deadline()) {
        return;
    }
    requester_.handle_timeout(now, outbox);
    after_call(outbox);
}

bool RcQp::progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    bool more = false;
    const bool held = outbox.defer_if_paused(common_.path);
    if (held) [[unlikely]] {
        // Answers and requests wait; what is flushed sends nothing.
    } else if (flow_.is_limited()) [[unlikely]] {
        more = progress_paced(now, max_packets, outbox);
    } else if (is_responder_active(common_.state)) [[likely]] {
        more = responder_.progress(max_packets, outbox, outbox);
        if (is_requester_active(common_.state)) {
            more |= requester_.progress(now, max_packets, outbox);
        }
    }
    if (common_.state == QpState::kErr) [[unlikely]] {
        // A NAK that takes the QP to ERR is still sent, after the responses that come before it.
        more = !held && responder_.progress_in_error(max_packets, outbox);
        more |= flush(outbox);
    }
    return more;
}

void RcQp::send_acknowledgement(Outbox& outbox) {
    if (is_responder_active(common_.state) && !outbox.defer_if_paused(common_.path)) {
        (void)responder_.progress(0, outbox, outbox);
    }
}

// Requests and responses share the QP's rate. Who sent first waits for the other next time: a pacer lets one
// packet go at a time, and a peer that reads without end must not silence the QP.
bool RcQp::progress_paced(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    if (!is_responder_active(common_.state)) {
        return false;
    }
    PacedOutbox paced(outbox, flow_, now);
    const bool is_sender = is_requester_active(common_.state);
    bool more = requests_first_ && is_sender && requester_.progress(now, max_packets, paced);
    if (common_.state != QpState::kErr) {
        more |= responder_.progress(max_packets, outbox, paced);
    }
    if (!requests_first_ && is_sender && common_.state != QpState::kErr) {
        more |= requester_.progress(now, max_packets, paced);
    }
    requests_first_ = paced.has_sent() ? !requests_first_ : requests_first_;
    return paced.finish_round(more);
}

TimeNs RcQp::deadline() const {
    const TimeNs flow = flow_.deadline();
    return is_requester_active(common_.state) ? std::min(send_state_.deadline(), flow) : flow;
}

// What follows from a call, whatever it was.
void RcQp::after_call(Outbox& outbox) {
    if (common_.state == QpState::kErr) [[unlikely]] {
        (void)flush(outbox);
    } else if (common_.state == QpState::kSqd) [[unlikely]] {
        report_drained(outbox);
    }
}

void RcQp::clear_reorder_buffers() {
    responder_.clear_reorder_buffer();
    send_state_.early_responses.clear();
}

bool RcQp::flush(Outbox& outbox) {
    clear_reorder_buffers();
    const bool more_sends = send_state_.flush(kFlushBatch, outbox);
    const bool more_receives = responder_.flush(kFlushBatch, outbox);
    return more_sends || more_receives;
}

void RcQp::report_drained(Outbox& outbox) {
    if (requester_.drained() && !drain_reported_) {
        drain_reported_ = true;
        if (common_.attr.en_sqd_async_notify != 0) {
            outbox.event(*this, AsyncEventType::kSqDrained);
        }
    }
}

}  // namespace urnic
