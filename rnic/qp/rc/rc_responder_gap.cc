// The responder while a request is missing (IBA 9.7.5.1.2).
#include "rnic/qp/rc/rc_responder.h"

namespace urnic {

// A packet before this one is missing: one NAK for it. This packet is held until the missing one has come, or
// else discarded; the requester learns which from what is acknowledged then.
void RcResponder::handle_out_of_sequence(const wire::PacketView& packet) {
    ++common_.config.counters->out_of_seq_request;
    ++common_.config.counters->out_of_sequence;
    const Psn psn = packet.header.psn;
    held_.hold(packet, expected_psn_);
    if (!nak_sent_ || psn.distance(newest_early_) > 0) {
        newest_early_ = psn;
    }
    if (!nak_sent_ || nak_waits_) {
        nak_sent_ = true;
        nak_waits_ = false;
        responses_.note_nak(wire::kNakPsnSequenceError, expected_psn_);
    } else if (held_.enabled() && packet.header.ack_req && !rnr_nak_sent_) {
        // The NAK is sent once. Should it be lost, the requester hears from acknowledgements that stand
        // still, which one that knows nothing of this takes for duplicates.
        responses_.note_ack();
    }
}

// The packet that a NAK asked for, and with it what is held behind it. Another gap there is reported at once.
// If the packet came before its NAK went out (reordered inside one burst), what was discarded behind it is
// still missing: the NAK goes out all the same, for the packet that is expected now.
void RcResponder::handle_missing(const wire::PacketView& packet, const wire::OpcodeInfo& info,
                                 Outbox& outbox) {
    nak_sent_ = rnr_nak_sent_ = nak_waits_ = false;
    const bool was_unsent = responses_.drop_nak();
    execute(packet, info, outbox);
    execute_held(outbox);
    if (!was_unsent && !packet.header.ack_req) {
        await_repeats(packet.header.psn);
    }
    if (nak_sent_ || common_.state == QpState::kErr) {
        return;
    }
    if (held_.empty() && !(was_unsent && newest_early_.distance(expected_psn_) >= 0)) {
        return;
    }
    nak_sent_ = true;
    // A requester that goes back N sends the next packet right behind this one: of a row that is missing it
    // hears once, or it would begin anew with each packet.
    nak_waits_ = !was_unsent && !packet.header.ack_req && expected_psn_.distance(packet.header.psn) == 1;
    if (!nak_waits_) {
        responses_.note_nak(wire::kNakPsnSequenceError, expected_psn_);
    }
}

// A requester that sends only what is missing asks for an acknowledgement of it. One that does not goes back
// N: it will send again what was held and is carried out now. Of those packets it hears when they have come
// again: Linux rxe takes an acknowledgement that overtakes what it is sending for the end of its retries, and
// when one more packet gets lost then, it waits for ever.
void RcResponder::await_repeats(Psn filled) {
    if (expected_psn_.distance(filled) > 1) {
        repeats_end_ = expected_psn_;
        repeated_to_ = filled + 1;
        responses_.drop_ack();
    }
}

// A duplicate, while the peer is believed to go back N. It does not when this is the packet that was missing
// and now it asks for an acknowledgement: what came first was the packet itself, late.
void RcResponder::note_repeat(Psn psn, bool ack_req) {
    const std::int32_t ahead = psn.distance(repeated_to_);
    if (ahead >= 0) {
        repeated_to_ = psn + 1;
    } else if (ahead == -1 && ack_req) {
        repeats_end_ = expected_psn_ - 1;
    }
}

// Carries out what is held, as far as it follows without a gap and the receive queue has WQEs for it.
void RcResponder::execute_held(Outbox& outbox) {
    held_.drop_before(expected_psn_);
    HeldPacket held;
    while (!nak_sent_ && common_.state != QpState::kErr && held_.take(expected_psn_, held)) {
        wire::PacketView packet;
        packet.header = held.header;
        packet.payload = held.payload;
        execute(packet, wire::opcode_info(held.header.opcode), outbox);
        held_.release(held);
        held_.drop_before(expected_psn_);
    }
}

}  // namespace urnic
