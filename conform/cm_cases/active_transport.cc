// The QP of a client as the one that sends: its first request, and what it does when the answer is a NAK, or
// does not come (IBA 9.7). What the program sends is its own affair; the first request is enough.
#include "conform/case/reference_icrc.h"
#include "conform/cm/passive_script.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {
namespace {

// A timeout that a case can wait for.
TimeNs ack_timeout_of(const msg::Req& req) {
    constexpr std::uint8_t kMost = 19;  // 2.1 s
    if (req.primary.local_ack_timeout == 0 || req.primary.local_ack_timeout > kMost) {
        throw NotApplicable("the client's ACK timeout is 4.096 us * 2^" +
                            std::to_string(req.primary.local_ack_timeout) + ", longer than a case waits");
    }
    return TimeNs{4096} << req.primary.local_ack_timeout;
}

// The whole packet but for AckReq, and with it the ICRC, is what it was.
bool is_the_same_request(const SeenFrame& one, const SeenFrame& other) {
    const wire::PacketHeader first = frame_header(one.bytes);
    const wire::PacketHeader second = frame_header(other.bytes);
    return first.psn == second.psn && first.opcode == second.opcode && one.bytes.size() == other.bytes.size();
}

ACTIVE_CASE(
    ActiveTransport, FirstRequest, "12.6.8 (9.7.1)",
    "the client's first request goes to the QP of the REP, with the PSN of the REP and a right ICRC") {
    connect();
    const SeenFrame first = requests();
    const wire::PacketHeader header = frame_header(first.bytes);
    require(header.dest_qp == tester().reply().local_qpn, "the request goes to another QP");
    require(header.psn.value() == first_psn(), "the request has PSN " + std::to_string(header.psn.value()) +
                                                   ", not the REP's " + std::to_string(first_psn()));
    require(header.pkey == tester().asked().pkey, "the request has another P_Key than the REQ");
    constexpr std::size_t kIcrcBytes = 4;
    const std::span<const std::byte> l3 = std::span(first.bytes).subspan(wire::kEthernetBytes);
    require(reference_icrc(l3.first(l3.size() - kIcrcBytes)) ==
                wire::load_le32(first.bytes.data() + first.bytes.size() - kIcrcBytes),
            "the request has a wrong ICRC");
    peer(ack(header.psn.value(), 1));
    ignore_the_rest();
}

ACTIVE_CASE(ActiveTransport, TakesRequests, "12.9 (9.7.1)",
            "behind its RTU the client's QP takes requests from the PSN of its REQ on") {
    connect();
    is_alive_still();
    takes_request(1, 2);
}

ACTIVE_CASE(ActiveTransport, ComesAgain, "9.7.6.1.3",
            "a request that is not acknowledged comes again, not before the ACK timeout of the REQ") {
    connect();
    const TimeNs least = ack_timeout_of(tester().asked());
    const SeenFrame first = requests();
    const SeenFrame* next = bench().next(first.time + 4 * least + bench().tolerance().patience_ns);
    require(next != nullptr, "the request does not come again within four times its timeout");
    const SeenFrame again = bench().take();
    require(is_the_same_request(first, again), "something else than the request was sent");
    require(again.time - first.time >= least,
            "it comes again after " + duration_text(again.time - first.time));
    measured("ACK timeout " + std::to_string(tester().asked().primary.local_ack_timeout) + ", " +
                 duration_text(least),
             duration_text(again.time - first.time));
    peer(ack(first_psn(), 1));
    ignore_the_rest();
}

ACTIVE_CASE(ActiveTransport, WaitsBehindAnRnrNak, "9.7.5.2.8",
            "behind an RNR NAK the request comes again, not before the time that the NAK names") {
    connect();
    if (tester().asked().rnr_retry_count == 0) {
        throw NotApplicable("the client's REQ says that it repeats nothing behind an RNR NAK");
    }
    const SeenFrame first = requests();
    constexpr std::uint8_t kCode = 26;
    constexpr TimeNs kLeastNs = 81'920'000;
    const TimeNs begin = cm().real_now();
    peer(rnr_nak(first_psn(), 0, kCode));
    const SeenFrame again = requests();
    require(is_the_same_request(first, again), "something else than the request was sent");
    require(again.time - begin >= kLeastNs, "it comes again after " + duration_text(again.time - begin));
    measured("RNR timer 26, " + duration_text(kLeastNs), duration_text(again.time - begin));
    peer(ack(first_psn(), 1));
    ignore_the_rest();
}

ACTIVE_CASE(ActiveTransport, RepeatsBehindASequenceNak, "9.7.5.2.6",
            "behind a NAK of a sequence error the request comes again, without waiting for a timeout") {
    connect();
    const TimeNs timeout = ack_timeout_of(tester().asked());
    const SeenFrame first = requests();
    const TimeNs begin = cm().real_now();
    peer(sequence_nak(first_psn(), 0));
    const SeenFrame again = requests();
    require(is_the_same_request(first, again), "something else than the request was sent");
    require(again.time - begin < timeout, "it comes again after " + duration_text(again.time - begin));
    measured("from the NAK to the request", duration_text(again.time - begin));
    peer(ack(first_psn(), 1));
    ignore_the_rest();
}

ACTIVE_CASE(ActiveTransport, AckOfWhatWasNotSent, "9.7.6.1.1",
            "an ACK of a PSN that was never sent does not complete the request: it comes again") {
    connect();
    const TimeNs least = ack_timeout_of(tester().asked());
    const SeenFrame first = requests();
    peer(ack((first_psn() + 5) & 0xff'ffffU, 1));
    const SeenFrame* next = bench().next(first.time + 4 * least + bench().tolerance().patience_ns);
    require(next != nullptr, "the request does not come again");
    require(is_the_same_request(first, bench().take()), "something else than the request was sent");
    peer(ack(first_psn(), 1));
    ignore_the_rest();
}

}  // namespace
}  // namespace urnic::conform
