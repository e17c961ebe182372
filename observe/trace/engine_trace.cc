#include "observe/trace/engine_trace.h"

#include <fmt/format.h>

namespace urnic::trace {

namespace {

NotedPacket noted(TimeNs now, const std::string& host, const QpWatcher::Packet& packet) {
    NotedPacket made;
    made.time_ns = now;
    made.device = host;
    made.qpn = packet.qp.qp_num();
    made.state = packet.qp.state();
    made.next_psn = packet.qp.psns().sq_psn;
    made.header = packet.header;
    made.payload_bytes = packet.payload_bytes;
    return made;
}

}  // namespace

void EngineTrace::sent(TimeNs now, const std::string& host, const Packet& packet) {
    settle();
    look_at(now, host, packet.qp);
    SentPacket& made = sent_.emplace();
    made.device = host;
    made.packet = noted(now, host, packet);
    made.packet.is_sent = true;
    made.packet.fate.fate = abi::PacketFate::kSent;
    made.counters = packet.qp.config().counters;
    made.retransmitted_before = made.counters->retrans_pkts.value();
}

void EngineTrace::settle() {
    if (!sent_) return;
    if (sent_->counters->retrans_pkts.value() != sent_->retransmitted_before) {
        sent_->packet.fate.fate = abi::PacketFate::kRetransmission;
    }
    sent_->packet.device = sent_->device;
    events_.add(sent_->packet);
    sent_.reset();
}

void EngineTrace::begin_receive(const Qp& qp, std::uint32_t held) {
    settle();
    is_receiving_ = true;
    fate_.begin(*qp.config().counters, held);
}

void EngineTrace::end_receive(TimeNs now, const std::string& host, const Packet& packet, std::uint32_t held) {
    NotedPacket received = noted(now, host, packet);
    received.fate = fate_.end(*packet.qp.config().counters, held);
    is_receiving_ = false;
    look_at(now, host, packet.qp);
    events_.add(received);
    for (const auto& [qpn, completion] : completed_) events_.add_completion(host, qpn, now, completion);
    completed_.clear();
}

void EngineTrace::completed(TimeNs now, const std::string& host, const Qp& qp, const Completion& completion) {
    if (is_receiving_) {
        completed_.emplace_back(qp.qp_num(), captured_completion(completion));
        return;
    }
    settle();
    look_at(now, host, qp);
    if (qp.state() == QpState::kErr) events_.add_error_state(host, qp.qp_num(), now);
    events_.add_completion(host, qp.qp_num(), now, captured_completion(completion));
}

void EngineTrace::timer_expired(TimeNs now, const std::string& host, const Qp& qp,
                                const TimerExpiry& expiry) {
    settle();
    events_.add_timer(host, qp.qp_num(), now, captured_timer(expiry));
}

void EngineTrace::progressed(TimeNs now, const std::string& host, const Qp& qp) { look_at(now, host, qp); }

/// A queue that is behind what was seen of it was emptied by RESET.
void EngineTrace::look_at(TimeNs now, const std::string& host, const Qp& qp) {
    Taken& taken = taken_[fmt::format("{}/{}", host, qp.qp_num())];
    if (taken.rate.has_changed(qp.flow())) {
        if (const auto rate = taken.rate.look(qp.flow())) {
            settle();
            events_.add_rate(host, qp.qp_num(), now, *rate);
        }
    }
    if (const SharedRecvQueue* const srq = qp.config().srq; srq != nullptr) {
        look_at_srq(now, host, qp, *srq);
    }
    if (const XrcSrqTable* const srqs = qp.config().xrc_srqs; srqs != nullptr) {
        srqs->for_each([&](const SharedRecvQueue& srq) { look_at_srq(now, host, qp, srq); });
    }
    const std::uint32_t sends = qp.sends_taken();
    const std::uint32_t receives = qp.config().rq.next();
    if (sends == taken.sends && receives == taken.receives) return;
    settle();
    if (is_ahead(taken.sends, sends)) taken.sends = 0;
    if (is_ahead(taken.receives, receives)) taken.receives = 0;
    // What is flushed was not taken up.
    const bool is_flushing = qp.state() == QpState::kErr;
    for (; !is_flushing && taken.sends != sends; ++taken.sends) {
        events_.add_wqe(host, qp.qp_num(), now, captured_send(qp, taken.sends));
    }
    if (!is_flushing) {
        note_receives(now, host, qp, taken.receives, receives);
    }
    taken.sends = sends;
    taken.receives = receives;
}

/// Several QPs share the queue: what is gone since the last look was taken by the one that has worked since,
/// which is looked at. A queue that is behind what was seen of it is another one in its place.
void EngineTrace::look_at_srq(TimeNs now, const std::string& host, const Qp& qp, const SharedRecvQueue& srq) {
    std::uint32_t& taken = taken_of_srqs_[&srq];
    const std::uint32_t next = srq.next();
    if (taken == next) return;
    settle();
    if (is_ahead(taken, next)) taken = 0;
    note_receives(now, host, qp, taken, next);
    taken = next;
}

void EngineTrace::note_receives(TimeNs now, const std::string& host, const Qp& qp, std::uint32_t begin,
                                std::uint32_t end) {
    abi::CapturedWqe wqe{};
    wqe.is_recv = 1;
    for (wqe.wqe_index = begin; wqe.wqe_index != end; ++wqe.wqe_index) {
        events_.add_wqe(host, qp.qp_num(), now, wqe);
    }
}

}  // namespace urnic::trace
