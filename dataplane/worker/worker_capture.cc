#include "dataplane/worker/worker_capture.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataplane/worker/notifying_cq.h"
#include "rnic/qp/captured_work.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

/// Those that the QP takes receives from: none, its own, or all of its XRC domain.
template <class Function>
void for_each_srq(const QpSlot& slot, Function function) {
    const QpConfig& config = slot.qp->config();
    if (config.srq != nullptr) {
        function(static_cast<NotifyingSrq&>(*config.srq));
    } else if (config.xrc_srqs != nullptr) [[unlikely]] {
        config.xrc_srqs->for_each(
            [&function](SharedRecvQueue& srq) { function(static_cast<NotifyingSrq&>(srq)); });
    }
}

}  // namespace

wire::Gid peer_of(const wire::Path& path) {
    wire::Gid peer{};
    const std::uint8_t* const l3 = path.bytes.data() + path.l3_offset;
    if (path.l3_offset == 0) {  // native InfiniBand: an LRH, and a GRH in the form of an IPv6 header
        const std::uint8_t* const dlid = path.bytes.data() + wire::kLrhDlid;
        if (path.length < wire::kLrhBytes + wire::kGrhBytes) {
            return wire::lid_gid(static_cast<std::uint16_t>(dlid[0] << 8U | dlid[1]));
        }
        std::memcpy(peer.data(), l3 + wire::kLrhBytes + wire::kIpv6Destination, peer.size());
    } else if (path.is_ipv4) {
        peer[10] = peer[11] = 0xff;
        std::memcpy(peer.data() + 12, l3 + wire::kIpv4Destination, 4);
    } else {
        std::memcpy(peer.data(), l3 + wire::kIpv6Destination, peer.size());
    }
    return peer;
}

void WorkerCapture::use(const PacketCaptures& captures) {
    settle();
    writer_.use(captures);
}

void WorkerCapture::begin_receive(TimeNs now, const Counters& counters, std::uint32_t held) {
    settle();
    is_receiving_ = true;
    // Behind what earlier packets of its burst were answered with.
    received_at_ = std::max(now, last_at_);
    fate_.begin(counters, held);
}

void WorkerCapture::end_receive(const Packet& packet, const Counters& counters, std::uint32_t held) {
    const Fate fate = fate_.end(counters, held);
    settle();
    is_receiving_ = false;
    writer_.write(packet, received_at_, false, fate);
    writer_.publish();
}

void WorkerCapture::sent(const Packet& packet, const Counters& counters, TimeNs now) {
    settle();
    last_at_ = now != 0 ? now : clock_.now();
    writer_.write(packet, last_at_, true, {abi::PacketFate::kSent}, pending_);
    pending_counters_ = &counters;
    retransmitted_before_ = counters.retrans_pkts.value();
}

// The answers to a packet are seen together with it: the reader puts them in the order of time.
template <class Content>
void WorkerCapture::write(const CaptureWriter::EventOf& of, const Content& content) {
    settle();
    last_at_ = std::max(last_at_, of.time);
    writer_.write(of, content);
    if (!is_receiving_) {
        writer_.publish();
    }
}

void WorkerCapture::completed(std::uint32_t rnic, const Qp& qp, const Completion& completion) {
    if (!writer_.is_tracing(rnic)) {
        return;
    }
    write({rnic, completion.qp_num, clock_.now(), static_cast<std::uint8_t>(qp.state())},
          captured_completion(completion));
}

void WorkerCapture::timer_expired(std::uint32_t rnic, const Qp& qp, const TimerExpiry& expiry) {
    write({rnic, qp.qp_num(), event_time(), static_cast<std::uint8_t>(qp.state())}, captured_timer(expiry));
}

void WorkerCapture::paused(std::uint32_t rnic, std::uint8_t paused, std::uint8_t resumed, bool is_sent) {
    abi::CapturedPause shown{};
    shown.paused = paused;
    shown.resumed = resumed;
    shown.is_sent = is_sent ? 1 : 0;
    write({.rnic = rnic, .time = event_time()}, shown);
}

void WorkerCapture::begin_look(QpSlot& slot) {
    slot.seen_wqes = {slot.qp->sends_taken(), slot.qp->config().rq.next()};
    slot.seen_rate.begin(slot.qp->flow());
    for_each_srq(slot, [](NotifyingSrq& srq) { srq.seen_receives = srq.next(); });
}

TimeNs WorkerCapture::look_at(std::uint32_t rnic, QpSlot& slot) {
    if (!writer_.is_tracing(rnic)) {
        return 0;
    }
    if (slot.seen_rate.has_changed(slot.qp->flow())) [[unlikely]] {
        note_rate(rnic, slot);
    }
    if (!has_new_wqes(slot)) {
        return 0;
    }
    settle();
    const QpState state = slot.qp->state();
    const TimeNs now = event_time();
    if (state != QpState::kErr && state != QpState::kSqe) {
        note_sends(rnic, slot, now);
    }
    if (state != QpState::kErr) {
        note_receives(rnic, slot, now);
    }
    const std::uint32_t seen_sends = slot.seen_wqes.sends;
    begin_look(slot);
    if (is_ahead(seen_sends, slot.seen_wqes.sends)) {
        slot.seen_wqes.sends = seen_sends;
    }
    if (is_receiving_) {
        return 0;
    }
    writer_.publish();
    return now;
}

// What is not ahead is not new: a datagram that a pause keeps back is taken twice.
bool WorkerCapture::has_new_wqes(const QpSlot& slot) const {
    bool has_receives = slot.qp->config().rq.next() != slot.seen_wqes.receives;
    for_each_srq(slot, [&](const NotifyingSrq& srq) { has_receives |= srq.next() != srq.seen_receives; });
    return has_receives || is_ahead(slot.qp->sends_taken(), slot.seen_wqes.sends);
}

void WorkerCapture::note_rate(std::uint32_t rnic, QpSlot& slot) {
    if (const auto shown = slot.seen_rate.look(slot.qp->flow())) {
        write({rnic, slot.qp->qp_num(), event_time(), static_cast<std::uint8_t>(slot.qp->state())}, *shown);
    }
}

void WorkerCapture::note_sends(std::uint32_t rnic, const QpSlot& slot, TimeNs time) {
    const Qp& qp = *slot.qp;
    for (std::uint32_t index = slot.seen_wqes.sends; is_ahead(qp.sends_taken(), index); ++index) {
        writer_.write({rnic, qp.qp_num(), time}, captured_send(qp, index));
    }
}

void WorkerCapture::note_receives(std::uint32_t rnic, const QpSlot& slot, TimeNs time) {
    const auto note = [&](std::uint32_t begin, std::uint32_t end) {
        abi::CapturedWqe wqe{};
        wqe.is_recv = 1;
        for (wqe.wqe_index = begin; wqe.wqe_index != end; ++wqe.wqe_index) {
            writer_.write({rnic, slot.qp->qp_num(), time}, wqe);
        }
    };
    note(slot.seen_wqes.receives, slot.qp->config().rq.next());
    for_each_srq(slot, [&](const NotifyingSrq& srq) { note(srq.seen_receives, srq.next()); });
}

// A requester counts a retransmission behind its transmit(), and nobody else does in between.
void WorkerCapture::publish_pending() {
    if (pending_counters_->retrans_pkts.value() != retransmitted_before_) [[unlikely]] {
        for (std::uint32_t left = pending_.places; left != 0; left &= left - 1) {
            pending_.of[static_cast<std::size_t>(std::countr_zero(left))]->fate =
                abi::PacketFate::kRetransmission;
        }
    }
    pending_counters_ = nullptr;
    // The answers to a packet are seen together with it: the reader puts them in the order of time.
    if (!is_receiving_) {
        writer_.publish();
    }
}

}  // namespace urnic::dataplane
