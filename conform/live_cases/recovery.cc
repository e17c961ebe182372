// How a device recovers: which packets it sends again, when, and how many of them for nothing.
#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

constexpr std::uint32_t kLossPackets = 16;
constexpr std::uint32_t kLossMtu = 256;
constexpr std::uint32_t kFirstPsn = 1000;

}  // namespace

/// A WRITE of 16 packets, of which one does not reach the peer, who holds what comes behind it.
class LiveRecovery : public LiveScript {
  protected:
    void lose(std::uint32_t lost) {
        connect({.mtu = kLossMtu, .timeout = 14});  // 67 ms
        post(write(1, kLossPackets * kLossMtu));
        (void)take_requests(kLossPackets);
        const std::uint32_t psn = kFirstPsn + lost;
        const bool is_last = lost + 1 == kLossPackets;
        const TimeNs begin = is_last ? now() : live().real_now();
        if (is_last) {
            peer(ack(psn - 1, 0));
        } else {
            peer(sequence_nak(psn, 0));
        }
        std::optional<SeenFrame> first = next_frame(kSecond);
        // The ACK timer may run out at the same time; what was acknowledged does not go again.
        require(first.has_value(), "what was lost is not sent again");
        require(frame_header(first->bytes).psn.value() == psn,
                "the first to go again has PSN " + std::to_string(frame_header(first->bytes).psn.value()));
        const TimeNs after = first->time > begin ? first->time - begin : 0;
        peer(ack(kFirstPsn + kLossPackets - 1, 1));
        completes(ok(1));
        const std::size_t more = frames_until_silence(30 * kMillisecond).size();
        measured(is_last ? "from the ACK before it to the repetition" : "from the NAK to the repetition",
                 duration_text(after));
        // Who goes back N repeats all that follows; others may send a packet or a few more than is missing.
        const bool goes_back = 1 + more > kLossPackets / 2;
        measured("packets sent again where 1 was lost", std::to_string(1 + more),
                 lost == 0 ? std::optional(ShownBehaviour{DeviceBehaviour::kRepetition, goes_back ? 1U : 0U})
                           : std::nullopt);
        leave_the_rest();
    }
};

CONFORM_CASE_IN(LiveRecovery, FirstLost, "9.7.5.2",
                "the first packet of a message was lost: it is sent again") {
    lose(0);
}
CONFORM_CASE_IN(LiveRecovery, MiddleLost, "9.7.5.2", "a packet inside a message was lost: it is sent again") {
    lose(kLossPackets / 2);
}
CONFORM_CASE_IN(LiveRecovery, LastLost, "9.7.6.1.3",
                "the last packet of a message was lost: it is sent again when the ACK timer has run out") {
    lose(kLossPackets - 1);
}

CONFORM_CASE_IN(LiveRecovery, ReorderedRequests, "9.7.5.1.2 (9.7.5.2)",
                "two packets of a message changed places: one NAK, and the message arrives") {
    connect({.mtu = kLossMtu});
    const auto part = [&](std::uint32_t i) {
        return i == 0   ? write_first(2000, 4 * kLossMtu, kLossMtu)
               : i == 3 ? write_last(2003, kLossMtu, std::size_t{3} * kLossMtu)
                        : write_middle(2000 + i, kLossMtu, std::size_t{i} * kLossMtu);
    };
    peer({unasked(part(0)), unasked(part(2)), unasked(part(1)), part(3)});
    std::size_t naks = 0;
    std::size_t again = 0;
    bool is_done = false;
    for (int i = 0; i < 16 && !is_done; ++i) {
        const std::optional<SeenFrame> frame = next_but_cnps(100 * kMillisecond);
        require(frame.has_value() || again < 4, "the message does not arrive");
        const std::uint32_t psn = frame ? frame_header(frame->bytes).psn.value() : 2000;
        const bool is_nak = frame && frame_header(frame->bytes).aeth.syndrome == wire::kNakPsnSequenceError;
        naks += is_nak ? 1U : 0U;
        is_done = frame && !is_nak && psn == 2003;
        // Who discards what came early says so again or not at all; the peer goes back to where it is.
        if (is_nak && psn > 2001) {
            for (std::uint32_t missing = psn; missing <= 2003; ++missing) {
                peer(part(missing - 2000));
                ++again;
            }
        } else if (!frame) {
            peer({part(0), part(1), part(2), part(3)});
            again += 4;
        }
    }
    require(is_done, "the message is not acknowledged");
    holds_peer_data(0, std::size_t{4} * kLossMtu, 0);
    measured("NAKs", std::to_string(naks));
    measured("packets that the peer had to send again", std::to_string(again));
    leave_the_rest();
}

CONFORM_CASE_IN(LiveRecovery, ResponderHoldsOrDiscards, "9.7.5.1.2",
                "what comes behind a gap may be kept or discarded") {
    connect({.mtu = kLossMtu});
    const TimeNs begin = live().real_now();
    peer({write_only(2001, 8, 64), write_only(2002, 8, 128), write_only(2003, 8, 192)});
    const std::optional<SeenFrame> nak = next_but_cnps(bench().tolerance().patience_ns);
    require(nak && frame_header(nak->bytes).aeth.syndrome == wire::kNakPsnSequenceError, "a gap has no NAK");
    measured("from the gap to the NAK", duration_text(nak->time > begin ? nak->time - begin : 0));
    peer(write_only(2000, 8));
    std::uint32_t acknowledged = 2000;
    for (const SeenFrame& frame : frames_until_silence(bench().tolerance().patience_ns)) {
        acknowledged = std::max(acknowledged, frame_header(frame.bytes).psn.value());
    }
    measured("of 3 packets behind the gap", std::to_string(acknowledged - 2000) + " kept",
             ShownBehaviour{DeviceBehaviour::kEarlyPackets, acknowledged > 2000 ? 1U : 0U});
    leave_the_rest();
}

CONFORM_CASE_IN(
    LiveRecovery, AtomicAnsweredAgain, "9.7.5.1.4",
    "an atomic whose response was lost is answered again, however often it is asked for, and executed "
    "once") {
    constexpr int kTimes = 20;
    connect();
    set_word(64, 100);
    peer(fetch_add_request(2000, 1, 64));
    sends(atomic_ack(2000, 1, 100).any_credits());
    for (int i = 0; i < kTimes; ++i) {
        peer(fetch_add_request(2000, 1, 64));
        sends(atomic_ack(2000, 1, 100).any_credits());
    }
    holds_word(64, 101);
}

}  // namespace urnic::conform
