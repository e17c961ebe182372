// The requester when requests, acknowledgements and NAKs get lost.
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(RequesterLoss, FirstOfSend, "9.7.5.2",
             "NAK 0x60 for the First of a SEND: sent again from there") {
    connect({.mtu = 256});
    post(send(1, 768));
    sends({send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    peer(sequence_nak(1000, 0));
    resends({send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    completes_nothing();
    peer(ack(1002, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, MiddleOfSend, "9.7.5.2",
             "NAK 0x60 for a Middle of a SEND: sent again from there") {
    connect({.mtu = 256});
    post(send(1, 768));
    sends({send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    peer(sequence_nak(1001, 0));
    resends({send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    completes_nothing();
    peer(ack(1002, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, LastOfSend, "9.7.6.1.3",
             "nothing follows a lost Last that could draw a NAK: after the timeout the SEND is repeated") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(send(1, 512));
    sends({send_first(1000, 256), send_last(1001, 256, 256)});
    resends_within(kLeast, kMost, {send_first(1000, 256), send_last(1001, 256, 256)});
    completes_nothing();
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, OnlyOfSend, "9.7.6.1.3", "a lost SEND Only is repeated after the timeout") {
    connect({.timeout = kTimeout});
    post(send(1, 100));
    sends(send_only(1000, 100));
    sends_within(kLeast, kMost, send_only(1000, 100));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, FirstOfWrite, "9.7.5.2",
             "NAK 0x60 for the First of a WRITE: the RETH is sent again") {
    connect({.mtu = 256});
    post(write(1, 600));
    sends({write_first(1000, 600, 256), write_middle(1001, 256, 256), write_last(1002, 88, 512)});
    peer(sequence_nak(1000, 0));
    resends({write_first(1000, 600, 256), write_middle(1001, 256, 256), write_last(1002, 88, 512)});
    peer(ack(1002, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, MiddleOfWrite, "9.7.5.2",
             "NAK 0x60 for a Middle of a WRITE: sent again from there") {
    connect({.mtu = 256});
    post(write(1, 1024));
    sends({write_first(1000, 1024, 256), write_middle(1001, 256, 256), write_middle(1002, 256, 512),
           write_last(1003, 256, 768)});
    peer(sequence_nak(1002, 0));
    resends({write_middle(1002, 256, 512), write_last(1003, 256, 768)});
    completes_nothing();
    peer(ack(1003, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, LastOfWrite, "9.7.6.1.3",
             "a WRITE whose Last got lost is repeated after the timeout") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(write(1, 300));
    sends({write_first(1000, 300, 256), write_last(1001, 44, 256)});
    resends_within(kLeast, kMost, {write_first(1000, 300, 256), write_last(1001, 44, 256)});
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE(
    RequesterLoss, LastOfWriteBeforeOthers, "9.7.5.2",
    "NAK 0x60 for the Last of one of several WRITEs: it and those behind it come again, none before") {
    connect({.mtu = 256});
    post({write(1, 300), write(2, 8, 1024)});
    sends({write_first(1000, 300, 256), write_last(1001, 44, 256), write_only(1002, 8, 1024)});
    peer(sequence_nak(1001, 0));
    resends({write_last(1001, 44, 256), write_only(1002, 8, 1024)});
    if (is_selective()) {
        completes(ok(1));  // the Last went alone, and was acknowledged
    }
    completes_nothing();
    peer(ack(1002, 2));
    completes(is_selective() ? Wcs{ok(2)} : Wcs{ok(1), ok(2)});
}

CONFORM_CASE(RequesterLoss, NakAcknowledgesWhatLiesBefore, "9.7.5.1.2",
             "a NAK acknowledges everything before its PSN, which completes at once") {
    connect();
    post({write(1, 8), write(2, 8), write(3, 8)});
    sends({write_only(1000, 8), write_only(1001, 8), write_only(1002, 8)});
    peer(sequence_nak(1002, 2));
    completes({ok(1), ok(2)});
    resends(write_only(1002, 8));
    peer(ack(1002, 3));
    completes(ok(3));
}

CONFORM_CASE(
    RequesterLoss, LostAck, "9.7.6.1.3",
    "a WRITE whose ACK got lost is repeated with its PSN; the ACK of the duplicate completes it once") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    sends_within(kLeast, kMost, write_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
    peer(ack(1000, 1));
    completes_nothing();
    silence(kMost);
}

CONFORM_CASE(RequesterLoss, LostAckMendedByTheNext, "9.7.5.1.2",
             "the ACK of a later request stands for the one that got lost: nothing is repeated") {
    connect({.timeout = kTimeout});
    post({send(1, 8), send(2, 8)});
    sends({send_only(1000, 8), send_only(1001, 8)});
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
    silence(kMost);
}

CONFORM_CASE(
    RequesterLoss, LostTailAfterALoss, "9.7.6.1.3",
    "where something was lost before, a request whose ACK is overdue may be repeated before the timeout") {
    connect({.timeout = kTimeout});
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(sequence_nak(1000, 0));
    resends({write_only(1000, 8), write_only(1001, 8)});
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
    post(write(3, 8));
    sends(write_only(1002, 8));
    no_answer(write_only(1002, 8));
    peer(ack(1002, 3));
    completes(ok(3));
    silence(kMost);
}

CONFORM_CASE(RequesterLoss, LostNak, "9.7.6.1.3",
             "a lost NAK is not sent again by the responder: the timeout starts the repetition") {
    connect({.mtu = 256, .timeout = kTimeout});
    post({write(1, 8), write(2, 8), write(3, 8)});
    sends({write_only(1000, 8), write_only(1001, 8), write_only(1002, 8)});
    peer(ack(1000, 1));
    completes(ok(1));
    resends_within(kLeast, kMost, {write_only(1001, 8), write_only(1002, 8)});
    peer(ack(1002, 3));
    completes({ok(2), ok(3)});
}

CONFORM_CASE(RequesterLoss, SecondLossInTheRepetition, "9.7.5.2",
             "a NAK for a packet behind the one that was repeated starts over from there") {
    connect({.mtu = 256});
    post(write(1, 1024));
    sends({write_first(1000, 1024, 256), write_middle(1001, 256, 256), write_middle(1002, 256, 512),
           write_last(1003, 256, 768)});
    peer(sequence_nak(1001, 0));
    resends({write_middle(1001, 256, 256), write_middle(1002, 256, 512), write_last(1003, 256, 768)});
    peer(sequence_nak(1003, 0));
    resends(write_last(1003, 256, 768));
    peer(ack(1003, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterLoss, ReadRequest, "9.7.5.2", "NAK 0x60 for a READ request: the same request again") {
    connect();
    post({write(1, 8), read(2, 3000, 4096)});
    sends({write_only(1000, 8), read_request(1001, 3000, 4096)});
    peer(sequence_nak(1001, 1));
    completes(ok(1));
    sends(read_request(1001, 3000, 4096));
    counts(&Counters::rcvd_seq_err, 1);
    answers_read(1001, 2, 3000, 4096);
    completes(ok(2).bytes(3000));
    holds_peer_data(4096, 3000, 4096);
}

CONFORM_CASE(RequesterLoss, AtomicRequest, "9.7.5.2", "NAK 0x60 for an atomic: the same request again") {
    connect();
    post(compare_swap(1, 5, 6, 64));
    sends(compare_swap_request(1000, 5, 6, 64));
    peer(sequence_nak(1000, 0));
    sends(compare_swap_request(1000, 5, 6, 64));
    peer(atomic_ack(1000, 1, 5));
    completes(ok(1));
    holds_word(64, 5);
}

CONFORM_CASE(RequesterLoss, NakBehindAnUnansweredRead, "9.7.6.1.4",
             "a NAK behind a READ whose responses are missing: the READ is asked for again, then the rest") {
    connect({.mtu = 256, .timeout = kTimeout});
    post({read(1, 600), write(2, 8, 1024), write(3, 8, 2048)});
    sends({read_request(1000, 600), write_only(1003, 8, 1024), write_only(1004, 8, 2048)});
    peer(sequence_nak(1003, 1));
    completes_nothing();
    if (is_selective()) {
        sends({write_only(1003, 8, 1024).ackreq(), read_request(1000, 600)});
        sends_nothing();
    } else {
        resends({read_request(1000, 600), write_only(1003, 8, 1024), write_only(1004, 8, 2048)});
    }
    answers_read(1000, 3, 600);
    peer(ack(1004, 3));
    completes({ok(1), ok(2), ok(3)});
}

CONFORM_CASE(
    RequesterLoss, RepetitionIsTheSame, "9.7.5.1.5",
    "a repeated request has the same PSN, headers and payload: immediate, solicited event, atomic operands") {
    connect({.timeout = kTimeout});
    SendRequest swap = compare_swap(3, 7, 9, 4096);
    post({solicited(send_imm(1, 100, 0x1234)), solicited(write_imm(2, 50, 0x5678)), swap,
          fetch_add(4, 11, 8192)});
    const ScriptPackets all = {packet(wire::kSendOnlyImm, 1000, 100).imm(0x1234).solicited(),
                               packet(wire::kWriteOnlyImm, 1001, 50).imm(0x5678).solicited(),
                               compare_swap_request(1002, 7, 9, 4096), fetch_add_request(1003, 11, 8192)};
    sends(all);
    resends_within(kLeast, kMost, all);
    peer({atomic_ack(1002, 3, 7), atomic_ack(1003, 4, 70)});
    completes({ok(1), ok(2), ok(3), ok(4)});
}

CONFORM_CASE(
    RequesterLoss, LateNakWhileAResponseIsMissing, "9.7.5.2",
    "a NAK of what has been acknowledged since comes late, while a READ response is missing: no harm") {
    connect();
    post({read(1, 8), write(2, 8), write(3, 8)});
    sends({read_request(1000, 8), write_only(1001, 8), write_only(1002, 8)});
    peer({ack(1002, 3), sequence_nak(1001, 1), response_only(1000, 1, 8)});
    if_repeated({write_only(1001, 8), write_only(1002, 8)}, ack(1002, 3));
    completes({ok(1), ok(2), ok(3)});
}

}  // namespace
}  // namespace urnic::conform
