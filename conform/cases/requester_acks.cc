// What an acknowledgement completes, what it implies, and which ones mean nothing (IBA 9.7.6).
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(RequesterAcks, Coalesced, "9.7.5.1.2",
             "one ACK completes all requests up to its PSN, in order") {
    connect();
    post({write(1, 8), send(2, 8), write_imm(3, 8, 1), write(4, 0), send(5, 8)});
    sends({write_only(1000, 8), send_only(1001, 8), packet(wire::kWriteOnlyImm, 1002, 8).imm(1),
           write_only(1003, 0), send_only(1004, 8)});
    peer(ack(1003, 4));
    completes({ok(1).op(WcOpcode::kRdmaWrite), ok(2).op(WcOpcode::kSend), ok(3).op(WcOpcode::kRdmaWrite),
               ok(4).op(WcOpcode::kRdmaWrite)});
    peer(ack(1004, 5));
    completes(ok(5));
}

CONFORM_CASE(RequesterAcks, InsideAMessage, "9.7.5.1.2",
             "an ACK of a Middle completes what lies before the message, not the message") {
    connect({.mtu = 256, .timeout = kTimeout});
    post({write(1, 8), send(2, 768)});
    sends(
        {write_only(1000, 8), send_first(1001, 256), send_middle(1002, 256, 256), send_last(1003, 256, 512)});
    peer(ack(1002, 1));
    completes(ok(1));
    resends_within(kLeast, kMost, send_last(1003, 256, 512));
    peer(ack(1003, 2));
    completes(ok(2));
}

CONFORM_CASE(RequesterAcks, Ghost, "9.7.6.1.1", "ACKs of PSNs that are long acknowledged change nothing") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
    post(write(2, 8));
    sends(write_only(1001, 8));
    peer({ack(1000, 1), ack(999, 0), ack(0, 0), ack(1001 + (1U << 23U), 0)});
    completes_nothing();
    state(QpState::kRts);
    peer(ack(1001, 2));
    completes(ok(2));
}

CONFORM_CASE(RequesterAcks, NeverSent, "9.7.6.1.1", "an ACK of a PSN that was never sent is dropped") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer({ack(1001, 2), ack(1500, 2), ack(1000 + (1U << 23U) - 1, 2)});
    completes_nothing();
    state(QpState::kRts);
    sends_within(kLeast, kMost, write_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterAcks, NeverSentOnAnIdleQueue, "9.7.6.1.1",
             "responses of every kind to a QP that has sent nothing are dropped") {
    connect();
    peer({ack(1000, 0), nak(1000, 0, wire::kNakInvalidRequest), rnr_nak(1000, 0, 1), sequence_nak(1000, 0),
          response_only(1000, 0, 8), atomic_ack(1000, 0, 1)});
    state(QpState::kRts);
    holds_own_data(0, 64);
    silence(1'000'000'000);
}

CONFORM_CASE(RequesterAcks, OldNak, "9.7.6.1.1",
             "NAKs of every code for PSNs already acknowledged are dropped") {
    connect();
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(ack(1000, 1));
    completes(ok(1));
    peer({sequence_nak(1000, 0), nak(1000, 0, wire::kNakInvalidRequest),
          nak(999, 0, wire::kNakRemoteAccessError), nak(1000, 0, wire::kNakRemoteOperationalError),
          rnr_nak(1000, 0, 0)});
    sends_nothing();
    state(QpState::kRts);
    peer(ack(1001, 2));
    completes(ok(2));
}

CONFORM_CASE(RequesterAcks, NakNeverSent, "9.7.6.1.1", "NAKs of every code for PSNs never sent are dropped") {
    connect();
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer({sequence_nak(1001, 0), nak(1001, 0, wire::kNakInvalidRequest),
          nak(1002, 0, wire::kNakRemoteAccessError), rnr_nak(1001, 0, 0)});
    sends_nothing();
    state(QpState::kRts);
    completes_nothing();
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterAcks, TwiceCompletesOnce, "9.7.6.1.1",
             "the same ACK many times completes each request once") {
    connect();
    post({send(1, 8), send(2, 8)});
    sends({send_only(1000, 8), send_only(1001, 8)});
    peer({ack(1000, 1), ack(1000, 1), ack(1001, 2), ack(1001, 2), ack(1000, 1), ack(1001, 2)});
    completes({ok(1), ok(2)});
    state(QpState::kRts);
}

CONFORM_CASE(
    RequesterAcks, ResponseOfACompletedRead, "9.7.6.1.1",
    "a READ response that comes again writes nothing: the buffer is the application's since it completed") {
    connect();
    post(read(1, 8));
    sends(read_request(1000, 8));
    peer(response_only(1000, 1, 8));
    completes(ok(1));
    set_word(0, 42);
    peer(response_only(1000, 1, 8));
    completes_nothing();
    holds_word(0, 42);
}

CONFORM_CASE(RequesterAcks, ResponseOfACompletedAtomic, "9.7.6.1.1",
             "an atomic's response that comes again, even with another value, writes nothing") {
    connect();
    post(fetch_add(1, 1));
    sends(fetch_add_request(1000, 1));
    peer(atomic_ack(1000, 1, 5));
    completes(ok(1));
    peer(atomic_ack(1000, 1, 6));
    completes_nothing();
    holds_word(0, 5);
}

CONFORM_CASE(RequesterAcks, ImpliedByReadResponse, "9.7.5.1.2",
             "the first response of a READ acknowledges the requests before it") {
    connect({.mtu = 256});
    post({send(1, 8), write(2, 8), read(3, 512, 1024)});
    sends({send_only(1000, 8), write_only(1001, 8), read_request(1002, 512, 1024)});
    peer(response_first(1002, 3, 256, 1024));
    completes({ok(1), ok(2)});
    peer(response_last(1003, 3, 256, 1280));
    completes(ok(3));
    holds_peer_data(1024, 512, 1024);
}

CONFORM_CASE(RequesterAcks, ImpliedByAtomicResponse, "9.7.5.1.2",
             "an atomic's response acknowledges the requests before it") {
    connect();
    post({send(1, 8), write(2, 8), fetch_add(3, 1)});
    sends({send_only(1000, 8), write_only(1001, 8), fetch_add_request(1002, 1)});
    peer(atomic_ack(1002, 3, 77));
    completes({ok(1), ok(2), ok(3)});
    holds_word(0, 77);
}

CONFORM_CASE(
    RequesterAcks, ImpliedNakByAck, "9.7.6.1.4",
    "an ACK behind a READ without responses: the READ is asked for again and nothing behind it completes") {
    connect({.timeout = kTimeout});
    post({read(1, 8), write(2, 8, 64)});
    sends({read_request(1000, 8), write_only(1001, 8, 64)});
    peer(ack(1001, 2));
    completes_nothing();
    counts(&Counters::implied_nak_seq_err, 1);
    if (is_selective()) {
        sends(read_request(1000, 8));  // the WRITE was acknowledged
        peer(response_only(1000, 2, 8));
    } else {
        resends({read_request(1000, 8), write_only(1001, 8, 64)});
        peer({response_only(1000, 2, 8), ack(1001, 2)});
    }
    completes({ok(1), ok(2)});
}

CONFORM_CASE(RequesterAcks, ImpliedNakByAtomicResponse, "9.7.6.1.4",
             "the response of a later atomic shows that one before got lost: the same request again") {
    connect({.timeout = kTimeout});
    post({fetch_add(1, 3), fetch_add(2, 4, 64)});
    sends({fetch_add_request(1000, 3), fetch_add_request(1001, 4, 64)});
    peer(atomic_ack(1001, 2, 200));
    completes_nothing();
    sends(fetch_add_request(1000, 3));
    peer(atomic_ack(1000, 2, 100));
    if_repeated(fetch_add_request(1001, 4, 64), atomic_ack(1001, 2, 200));
    completes({ok(1), ok(2)});
    holds_word(0, 100);
    holds_word(64, 200);
}

CONFORM_CASE(
    RequesterAcks, ImpliedNakByLaterRead, "9.7.6.1.4",
    "the response of a later READ shows that one before got lost: the missing READ is asked for first") {
    connect({.timeout = kTimeout});
    post({read(1, 8), read(2, 8, 64)});
    sends({read_request(1000, 8), read_request(1001, 8, 64)});
    peer(response_only(1001, 2, 8, 64));
    completes_nothing();
    sends(read_request(1000, 8));
    peer(response_only(1000, 2, 8));
    if_repeated(read_request(1001, 8, 64), response_only(1001, 2, 8, 64));
    completes({ok(1), ok(2)});
    holds_peer_data(0, 8, 0);
    holds_peer_data(64, 8, 64);
}

CONFORM_CASE(RequesterAcks, AckOfAReadIsNoResponse, "9.7.6.1.4",
             "an ACK with the PSN of a READ does not complete it: the data has not come") {
    connect({.timeout = kTimeout});
    post(read(1, 8));
    sends(read_request(1000, 8));
    peer(ack(1000, 1));
    completes_nothing();
    resends(read_request(1000, 8));
    peer(response_only(1000, 1, 8));
    completes(ok(1));
    holds_peer_data(0, 8, 0);
}

CONFORM_CASE(RequesterAcks, AckOfAnAtomicIsNoResponse, "9.7.6.1.4",
             "an ACK with the PSN of an atomic does not complete it: the value has not come") {
    connect({.timeout = kTimeout});
    post(fetch_add(1, 1));
    sends(fetch_add_request(1000, 1));
    peer(ack(1000, 1));
    completes_nothing();
    resends(fetch_add_request(1000, 1));
    peer(atomic_ack(1000, 1, 8));
    completes(ok(1));
}

CONFORM_CASE(
    RequesterAcks, LateAckEndsTheRepetition, "9.7.6.1.3",
    "an ACK that comes after the timeout counts for what was sent before it: no further repetition") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    sends_within(kLeast, kMost, write_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
    silence(4 * kMost);
    peer(ack(1000, 1));
    completes_nothing();
}

}  // namespace
}  // namespace urnic::conform
