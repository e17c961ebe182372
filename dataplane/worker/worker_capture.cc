#include "dataplane/worker/worker_capture.h"

#include <cstring>

#include "dataplane/worker/notifying_cq.h"
#include "rnic/qp/captured_work.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

NotifyingSrq* srq_of(const QpSlot& slot) { return static_cast<NotifyingSrq*>(slot.qp->config().srq); }

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

void WorkerCapture::begin_receive(const Counters& counters, std::uint32_t held) {
    settle();
    is_receiving_ = true;
    received_at_ = clock_.now();
    fate_.begin(counters, held);
}

void WorkerCapture::end_receive(const Packet& packet, const Counters& counters, std::uint32_t held) {
    const Fate fate = fate_.end(counters, held);
    settle();
    is_receiving_ = false;
    (void)writer_.write(packet, received_at_, false, fate);
    writer_.publish();
}

void WorkerCapture::sent(const Packet& packet, const Counters& counters) {
    settle();
    pending_ = writer_.write(packet, clock_.now(), true, {abi::PacketFate::kSent});
    pending_counters_ = &counters;
    retransmitted_before_ = counters.retrans_pkts.value();
}

void WorkerCapture::completed(std::uint32_t rnic, const Completion& completion) {
    settle();
    writer_.write_completion(rnic, completion, clock_.now());
    if (!is_receiving_) {
        writer_.publish();
    }
}

void WorkerCapture::begin_look(QpSlot& slot) {
    slot.seen_wqes = {slot.qp->sends_taken(), slot.qp->config().rq.next()};
    if (NotifyingSrq* const srq = srq_of(slot); srq != nullptr) {
        srq->seen_receives = srq->next();
    }
}

void WorkerCapture::look_at(std::uint32_t rnic, QpSlot& slot) {
    if (!writer_.is_tracing(rnic) || !has_new_wqes(slot)) {
        return;
    }
    settle();
    const QpState state = slot.qp->state();
    if (state != QpState::kErr && state != QpState::kSqe) {
        note_sends(rnic, slot, is_receiving_ ? received_at_ : clock_.now());
    }
    if (state != QpState::kErr) {
        note_receives(rnic, slot, is_receiving_ ? received_at_ : clock_.now());
    }
    const std::uint32_t seen_sends = slot.seen_wqes.sends;
    begin_look(slot);
    if (is_ahead(seen_sends, slot.seen_wqes.sends)) {
        slot.seen_wqes.sends = seen_sends;
    }
    if (!is_receiving_) {
        writer_.publish();
    }
}

// What is not ahead is not new: a datagram that a pause keeps back is taken twice.
bool WorkerCapture::has_new_wqes(const QpSlot& slot) const {
    const NotifyingSrq* const srq = srq_of(slot);
    return is_ahead(slot.qp->sends_taken(), slot.seen_wqes.sends) ||
           slot.qp->config().rq.next() != slot.seen_wqes.receives ||
           (srq != nullptr && srq->next() != srq->seen_receives);
}

void WorkerCapture::note_sends(std::uint32_t rnic, const QpSlot& slot, TimeNs time) {
    const Qp& qp = *slot.qp;
    for (std::uint32_t index = slot.seen_wqes.sends; is_ahead(qp.sends_taken(), index); ++index) {
        writer_.write_wqe(rnic, qp.qp_num(), captured_send(qp, index), time);
    }
}

void WorkerCapture::note_receives(std::uint32_t rnic, const QpSlot& slot, TimeNs time) {
    const NotifyingSrq* const srq = srq_of(slot);
    const std::uint32_t end = srq != nullptr ? srq->next() : slot.qp->config().rq.next();
    abi::CapturedWqe wqe{};
    wqe.is_recv = 1;
    wqe.wqe_index = srq != nullptr ? srq->seen_receives : slot.seen_wqes.receives;
    for (; wqe.wqe_index != end; ++wqe.wqe_index) {
        writer_.write_wqe(rnic, slot.qp->qp_num(), wqe, time);
    }
}

// A requester counts a retransmission behind its transmit(), and nobody else does in between.
void WorkerCapture::publish_pending() {
    const bool again = pending_counters_->retrans_pkts.value() != retransmitted_before_;
    for (abi::CaptureRecord* const record : pending_) {
        if (record != nullptr && again) {
            record->fate = abi::PacketFate::kRetransmission;
        }
    }
    pending_ = {};
    pending_counters_ = nullptr;
    // The answers to a packet are seen together with it: the reader puts them in the order of time.
    if (!is_receiving_) {
        writer_.publish();
    }
}

}  // namespace urnic::dataplane
