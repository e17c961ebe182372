// The responder while a request is missing (IBA 9.7.5.1.2).
#include "rnic/qp/rc/rc_responder.h"

namespace urnic {

// A packet before this one is missing: one NAK for it. This packet is kept until the missing one has arrived,
// or else discarded; the requester learns which from what is acknowledged then.
void RcResponder::handle_out_of_sequence(TimeNs now, const wire::PacketView& packet, Outbox& outbox) {
    using enum RequestGap::State;
    ++common_.config.counters->out_of_seq_request;
    ++common_.config.counters->out_of_sequence;
    const Psn psn = packet.header.psn;
    early_requests_.insert(packet, expected_psn_);
    if (!gap_.is_open() || psn > gap_.highest_early_psn) {
        gap_.highest_early_psn = psn;
    }
    if (gap_.state == kNone || gap_.state == kNakDeferred) {
        report_gap(now, packet, outbox);
    } else if (gap_.state == kNakSent && early_requests_.is_enabled() && packet.header.ack_req) {
        // The NAK is sent once. Should it be lost, the requester sees acknowledgements that do not advance,
        // which one that knows nothing of this takes for duplicates.
        responses_.schedule_ack();
    }
}

void RcResponder::report_gap(TimeNs now, const wire::PacketView& packet, Outbox& outbox) {
    gap_.state = RequestGap::State::kNakSent;
    responses_.schedule_nak(wire::kNakPsnSequenceError, expected_psn_);
    notification_point_.on_sequence_nak(now, common_, packet, outbox);
}

// The packet that a NAK asked for, and with it what is kept behind it. Another gap there is reported at once.
// If the packet arrived before its NAK was sent (reordered inside one burst), what was discarded behind it is
// still missing: the NAK is sent all the same, for the packet that is expected now.
void RcResponder::on_gap_filled(TimeNs now, const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                Outbox& outbox) {
    using enum RequestGap::State;
    gap_.state = kNone;
    const bool was_unsent = responses_.cancel_nak();
    execute(packet, info, outbox);
    drain_reorder_buffer(outbox);
    if (!was_unsent && !packet.header.ack_req) {
        expect_go_back_n(packet.header.psn);
    }
    if (gap_.is_open() || common_.state == QpState::kErr) {
        return;
    }
    if (early_requests_.empty() && !(was_unsent && gap_.highest_early_psn >= expected_psn_)) {
        return;
    }
    // A requester that goes back N sends the next packet right behind this one. Of successive packets that
    // are missing it gets one NAK, or it would go back again with each of them.
    const bool is_next_on_the_way =
        !was_unsent && !packet.header.ack_req && expected_psn_.distance(packet.header.psn) == 1;
    if (is_next_on_the_way) {
        gap_.state = kNakDeferred;
    } else {
        report_gap(now, packet, outbox);
    }
}

// A requester that sends only what is missing asks for an acknowledgement of it. One that does not goes back
// N: it will send again what was kept here and is executed by now. Those packets are acknowledged when they
// have arrived again: Linux rxe takes an acknowledgement that overtakes what it is sending for the end of its
// retries, and when one more packet gets lost then, it waits for ever.
void RcResponder::expect_go_back_n(Psn filled) {
    if (expected_psn_.distance(filled) > 1) {
        gap_.expect_repeat(filled, expected_psn_);
        responses_.cancel_ack();
    }
}

// A duplicate, while the peer is believed to go back N. It does not when this is the packet that was missing
// and now it asks for an acknowledgement: what arrived first was the packet itself, late.
void RcResponder::on_repeated_request(Psn psn, bool ack_req) {
    const std::int32_t ahead = psn.distance(gap_.repeated_end);
    if (ahead >= 0) {
        gap_.repeated_end = psn + 1;
    } else if (ahead == -1 && ack_req) {
        gap_.end_repeat();
    }
}

// Executes what is kept, as far as it follows without a gap and the receive queue has WQEs for it.
void RcResponder::drain_reorder_buffer(Outbox& outbox) {
    early_requests_.drop_before(expected_psn_);
    BufferedPacket early;
    while (!gap_.is_open() && common_.state != QpState::kErr &&
           early_requests_.extract(expected_psn_, early)) {
        wire::PacketView packet;
        packet.header = early.header;
        packet.payload = early.payload;
        execute(packet, wire::opcode_info(early.header.opcode), outbox);
        early_requests_.release(early);
        early_requests_.drop_before(expected_psn_);
    }
}

}  // namespace urnic
