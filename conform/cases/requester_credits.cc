// End-to-end flow control as the requester obeys it (IBA 9.7.7.2).
#include <algorithm>

#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

class RequesterCredits : public Script {
  protected:
    // One message went and completed; the peer's receive queue has room as the credit code says.
    void starve(std::uint8_t code = 0, std::uint8_t timeout = kTimeout) {
        connect({.mtu = 256, .timeout = timeout});
        post(write(1, 8));
        sends(write_only(1000, 8));
        peer(ack(1000, 1).credits(code));
        completes(ok(1));
    }
};

CONFORM_CASE_IN(
    RequesterCredits, EveryCode, "9.7.7.2",
    "credit codes 0 to 13: as many SENDs go as the table says, and one more that waits for its ACK") {
    constexpr std::uint32_t kCreditTable[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96};
    for (std::uint8_t code = 0; code < 14; ++code) {
        given("code", code);
        starve(code);
        SendRequests requests({});
        for (std::uint32_t i = 0; i < kCreditTable[code] + 3; ++i) {
            requests.push_back(send(2 + i, 8));
        }
        post(requests);
        for (std::uint32_t i = 0; i <= kCreditTable[code]; ++i) {
            sends(send_only(1001 + i, 8));
        }
        silence(kLeast - 1);
    }
}

CONFORM_CASE_IN(RequesterCredits, Unlimited, "9.7.7.2", "code 31: no limit") {
    starve(31, 0);  // however long a hundred requests take
    for (std::uint32_t i = 0; i < 100; ++i) {
        post(send(2 + i, 8));
        sends(send_only(1001 + i, 8));
    }
}

CONFORM_CASE_IN(RequesterCredits, OneAtATime, "9.7.7.2.5",
                "without credits one SEND goes, asks for an ACK, and the next waits for that ACK") {
    starve();
    post({send(2, 8), send(3, 8), send(4, 8)});
    sends(send_only(1001, 8).ackreq());
    silence(kLeast / 2);
    peer(ack(1001, 2).credits(0));
    completes(ok(2));
    sends(send_only(1002, 8).ackreq());
    silence(kLeast / 2);
    peer(ack(1002, 3).credits(0));
    completes(ok(3));
    sends(send_only(1003, 8).ackreq());
    peer(ack(1003, 4).credits(0));
    completes(ok(4));
}

CONFORM_CASE_IN(
    RequesterCredits, OnePacketOfALongMessage, "9.7.7.2.5",
    "without credits only the First of a longer SEND goes, with AckReq; credits let the rest go") {
    starve();
    post({send(2, 700), send(3, 8)});
    sends(send_first(1001, 256).ackreq());
    silence(kLeast / 2);
    peer(ack(1001, 1).credits(2));
    sends({send_middle(1002, 256, 256), send_last(1003, 188, 512), send_only(1004, 8)});
    peer(ack(1004, 3));
    completes({ok(2), ok(3)});
}

CONFORM_CASE_IN(RequesterCredits, RegainedByAnUnsolicitedAck, "9.7.7.2",
                "an unsolicited ACK, which repeats the last PSN with more credits, lets messages go") {
    starve();
    post({send(2, 8), send(3, 8), send(4, 8), send(5, 8)});
    sends(send_only(1001, 8));
    silence(kLeast / 2);
    peer(ack(1000, 1).credits(3));
    completes_nothing();
    sends({send_only(1002, 8), send_only(1003, 8), send_only(1004, 8)});
    peer(ack(1004, 5));
    completes({ok(2), ok(3), ok(4), ok(5)});
}

CONFORM_CASE_IN(RequesterCredits, OldAckGivesNone, "9.7.7.2",
                "the credits of an ACK older than the last are not believed") {
    starve();
    post({send(2, 8), send(3, 8)});
    sends(send_only(1001, 8));
    peer(ack(990, 0).credits(20));
    silence(kLeast / 2);
    peer(ack(1001, 2).credits(0));
    completes(ok(2));
    sends(send_only(1002, 8));
}

CONFORM_CASE_IN(RequesterCredits, NotForWhatTakesNoReceive, "9.7.7.2",
                "WRITE, READ and atomics need no credits") {
    starve();
    post({write(2, 8), read(3, 8, 64), fetch_add(4, 1, 128), compare_swap(5, 1, 2, 192), write(6, 0)});
    sends({write_only(1001, 8), read_request(1002, 8, 64), fetch_add_request(1003, 1, 128),
           compare_swap_request(1004, 1, 2, 192), write_only(1005, 0)});
}

CONFORM_CASE_IN(RequesterCredits, ForWriteWithImmediate, "9.7.7.2",
                "WRITE with immediate takes a receive: one at a time without credits") {
    starve();
    post({write_imm(2, 8, 5), write_imm(3, 8, 6)});
    sends(packet(wire::kWriteOnlyImm, 1001, 8).imm(5).ackreq());
    silence(kLeast / 2);
    peer(ack(1001, 2).credits(1));
    completes(ok(2));
    sends(packet(wire::kWriteOnlyImm, 1002, 8).imm(6));
}

CONFORM_CASE_IN(RequesterCredits, NothingOvertakes, "9.5",
                "a WRITE behind a SEND that waits for credits waits too") {
    starve();
    post({send(2, 8), send(3, 8), write(4, 8)});
    sends(send_only(1001, 8));
    silence(kLeast / 2);
    peer(ack(1001, 2).credits(1));
    completes(ok(2));
    sends({send_only(1002, 8), write_only(1003, 8)});
}

CONFORM_CASE_IN(RequesterCredits, InReadResponses, "9.7.7.2",
                "the AETH of a READ response carries credits as an ACK does") {
    starve();
    post({read(2, 8, 64), send(3, 8), send(4, 8)});
    sends(read_request(1001, 8, 64));
    peer(response_only(1001, 2, 8, 64).credits(2));
    completes(ok(2));
    sends({send_only(1002, 8), send_only(1003, 8)});
}

CONFORM_CASE_IN(RequesterCredits, InAtomicResponses, "9.7.7.2",
                "the AETH of an atomic response carries credits as an ACK does") {
    starve();
    post({fetch_add(2, 1, 64), send(3, 8), send(4, 8)});
    sends(fetch_add_request(1001, 1, 64));
    peer(atomic_ack(1001, 2, 9).credits(2));
    completes(ok(2));
    sends({send_only(1002, 8), send_only(1003, 8)});
}

CONFORM_CASE_IN(RequesterCredits, NakGivesNone, "9.7.5.2",
                "the syndrome of a NAK is no credit code: only what was refused goes again") {
    starve();
    post({send(2, 8), send(3, 8)});
    sends(send_only(1001, 8));
    peer(sequence_nak(1001, 1));
    sends(send_only(1001, 8).ackreq());
    no_answer(send_only(1001, 8).ackreq());
    peer(ack(1001, 2).credits(0));
    completes(ok(2));
    sends(send_only(1002, 8));
}

CONFORM_CASE_IN(RequesterCredits, LostWithoutCredits, "9.7.6.1.3",
                "the one SEND that went without credits is repeated when it gets lost") {
    starve();
    post({send(2, 8), send(3, 8)});
    sends(send_only(1001, 8));
    sends_within(kLeast, kMost, send_only(1001, 8).ackreq());
    peer(ack(1001, 2).credits(1));
    completes(ok(2));
    sends(send_only(1002, 8));
}

CONFORM_CASE_IN(RequesterCredits, MsnAndCreditsWrap, "9.7.7.2", "the limit is MSN plus credits modulo 2^24") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(ack(1000, 0xff'fffe).credits(4));  // up to message 2
    completes(ok(1));
    post({send(2, 8), send(3, 8), send(4, 8)});
    sends({send_only(1001, 8), send_only(1002, 8)});
    silence(kLeast / 2);
}

}  // namespace
}  // namespace urnic::conform
