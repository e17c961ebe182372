// The responder while a request is missing (IBA 9.7.5.1.2).
#include "rnic/qp/rc/rc_responder.h"

namespace urnic {

// A packet before this one is missing: one NAK for it. This packet is held until the missing one has come, or
// else discarded; the requester learns which from what is acknowledged then.
void RcResponder::handle_out_of_sequence(const wire::PacketView& packet) {
    ++common_.config.counters->out_of_seq_request;
    ++common_.config.counters->out_of_sequence;
    const Psn psn = packet.header.psn;
    early_requests_.insert(packet, expected_psn_);
    if (!nak_sent_ || psn.distance(highest_early_psn_) > 0) {
        highest_early_psn_ = psn;
    }
    if (!nak_sent_ || nak_deferred_) {
        nak_sent_ = true;
        nak_deferred_ = false;
        responses_.schedule_nak(wire::kNakPsnSequenceError, expected_psn_);
    } else if (early_requests_.is_enabled() && packet.header.ack_req && !rnr_nak_sent_) {
        // The NAK is sent once. Should it be lost, the requester hears from acknowledgements that stand
        // still, which one that knows nothing of this takes for duplicates.
        responses_.schedule_ack();
    }
}

// The packet that a NAK asked for, and with it what is held behind it. Another gap there is reported at once.
// If the packet came before its NAK went out (reordered inside one burst), what was discarded behind it is
// still missing: the NAK goes out all the same, for the packet that is expected now.
void RcResponder::on_gap_filled(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                Outbox& outbox) {
    nak_sent_ = rnr_nak_sent_ = nak_deferred_ = false;
    const bool was_unsent = responses_.cancel_nak();
    execute(packet, info, outbox);
    drain_reorder_buffer(outbox);
    if (!was_unsent && !packet.header.ack_req) {
        expect_go_back_n(packet.header.psn);
    }
    if (nak_sent_ || common_.state == QpState::kErr) {
        return;
    }
    if (early_requests_.empty() && !(was_unsent && highest_early_psn_.distance(expected_psn_) >= 0)) {
        return;
    }
    nak_sent_ = true;
    // A requester that goes back N sends the next packet right behind this one: of a row that is missing it
    // hears once, or it would begin anew with each packet.
    nak_deferred_ = !was_unsent && !packet.header.ack_req && expected_psn_.distance(packet.header.psn) == 1;
    if (!nak_deferred_) {
        responses_.schedule_nak(wire::kNakPsnSequenceError, expected_psn_);
    }
}

// A requester that sends only what is missing asks for an acknowledgement of it. One that does not goes back
// N: it will send again what was held and is carried out now. Of those packets it hears when they have come
// again: Linux rxe takes an acknowledgement that overtakes what it is sending for the end of its retries, and
// when one more packet gets lost then, it waits for ever.
void RcResponder::expect_go_back_n(Psn filled) {
    if (expected_psn_.distance(filled) > 1) {
        repeats_end_ = expected_psn_;
        repeated_to_ = filled + 1;
        responses_.cancel_ack();
    }
}

// A duplicate, while the peer is believed to go back N. It does not when this is the packet that was missing
// and now it asks for an acknowledgement: what came first was the packet itself, late.
void RcResponder::on_repeated_request(Psn psn, bool ack_req) {
    const std::int32_t ahead = psn.distance(repeated_to_);
    if (ahead >= 0) {
        repeated_to_ = psn + 1;
    } else if (ahead == -1 && ack_req) {
        repeats_end_ = expected_psn_ - 1;
    }
}

// Carries out what is held, as far as it follows without a gap and the receive queue has WQEs for it.
void RcResponder::drain_reorder_buffer(Outbox& outbox) {
    early_requests_.drop_before(expected_psn_);
    BufferedPacket held;
    while (!nak_sent_ && common_.state != QpState::kErr && early_requests_.extract(expected_psn_, held)) {
        wire::PacketView packet;
        packet.header = held.header;
        packet.payload = held.payload;
        execute(packet, wire::opcode_info(held.header.opcode), outbox);
        early_requests_.release(held);
        early_requests_.drop_before(expected_psn_);
    }
}

}  // namespace urnic
