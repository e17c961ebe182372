// What is looked at before a request reaches the responder: transport header, addresses, ICRC, the QP's state
// (IBA 9.6.1, 10.3.1, annex A17). What does not pass is dropped and draws no answer.
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

constexpr std::size_t kBth = 20 + 8;  // behind IPv4 and UDP

// --- BTH --------------------------------------------------------------------------------------------------

CONFORM_CASE(ResponderHeader, WrongPkey, "9.6.1.1",
             "another P_Key: dropped and counted; the same packet with ours is taken") {
    connect();
    for (const std::uint16_t pkey : {0x8001, 0x7ffe, 0x0000, 0xfffe}) {
        peer(write_only(2000, 8).pkey(pkey));
    }
    silence(kSecond);
    counts(&Counters::drop_pkey, 4);
    holds_own_data(0, 8);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

CONFORM_CASE(
    ResponderHeader, LimitedMembers, "10.9.1.2",
    "a full member talks to limited ones, limited ones do not talk to each other; answers carry our P_Key") {
    connect();
    peer(write_only(2000, 8).pkey(0x7fff));
    sends(acked(2000, 1).pkey(0xffff));
    connect({}, {.pkeys = {0x7fff}});
    peer(write_only(2000, 8).pkey(0x7fff));
    silence(kSecond);
    counts(&Counters::drop_pkey, 1);
    peer(write_only(2000, 8).pkey(0xffff));
    sends(acked(2000, 1).pkey(0x7fff));
}

CONFORM_CASE(ResponderHeader, WrongTver, "9.6.1.1", "TVer other than 0: dropped") {
    connect();
    for (std::uint8_t tver = 1; tver < 16; ++tver) {
        peer(write_only(2000, 8).tver(tver));
    }
    silence(kSecond);
    holds_own_data(0, 8);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

CONFORM_CASE(ResponderHeader, DestQpUnknown, "9.6.1.1", "another DestQP, or the multicast one: dropped") {
    connect();
    for (const std::uint32_t qp_num : {3U, 0x80'0001U, 0xff'ffffU}) {
        peer(write_only(2000, 8).dest_qp(qp_num));
    }
    silence(kSecond);
    holds_own_data(0, 8);
    state(QpState::kRts);
}

CONFORM_CASE(
    ResponderHeader, OtherServices, "9.6.1.1",
    "opcodes of UC, RD, UD, XRC, CNP and manufacturers at an RC QP: dropped and counted, QP and PSN stay") {
    connect();
    post_receive(100, 64);
    std::uint32_t sent = 0;
    for (const std::uint8_t service : {0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0}) {
        for (const std::uint8_t operation :
             {wire::kSendOnly, wire::kWriteOnly, wire::kSendMiddle, wire::kReadRequest, wire::kFetchAdd}) {
            // 64 bytes behind the BTH: room for whatever headers these opcodes have.
            peer(
                packet(wire::kSendOnly, 2000, 64).opcode_lie(static_cast<std::uint8_t>(service | operation)));
            ++sent;
        }
    }
    silence(kSecond);
    state(QpState::kRts);
    holds_own_data(0, 64);
    // CNP, and READ Request and FetchAdd of RD and XRC, have no payload: they end before the 64 bytes do.
    constexpr std::uint32_t kMalformed = 5;
    counts(&Counters::drop_opcode, sent - kMalformed);
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8));
}

CONFORM_CASE(ResponderHeader, ReservedBits, "9.2", "reserved bits of the BTH are ignored at the receiver") {
    connect();
    std::uint32_t psn = 2000;
    for (std::uint8_t bit = 0; bit < 6; ++bit) {
        peer(write_only(psn, 8).flips(4, static_cast<std::uint8_t>(1U << bit)));  // next to FECN and BECN
        sends(acked(psn, psn - 1999));
        ++psn;
    }
    for (std::uint8_t bit = 0; bit < 7; ++bit) {
        peer(write_only(psn, 8).flips(8, static_cast<std::uint8_t>(1U << bit)));  // behind AckReq
        sends(acked(psn, psn - 1999));
        ++psn;
    }
}

CONFORM_CASE(ResponderHeader, MigReq, "9.2",
             "requests with MigReq 0 and 1 are taken; without path migration answers carry 1") {
    connect();
    peer(write_only(2000, 8).mig_req(false));
    sends(acked(2000, 1).mig_req(true));
    peer(write_only(2001, 8).mig_req(true));
    sends(acked(2001, 2).mig_req(true));
    state(QpState::kRts);
}

CONFORM_CASE(ResponderHeader, CongestionMarks, "9.2 (A17)", "FECN and BECN change nothing about a request") {
    connect();
    peer({write_only(2000, 8).flips(4, 0x80), write_only(2001, 8).flips(4, 0x40)});
    sends(acked(2001, 2));
}

CONFORM_CASE(ResponderHeader, SolicitedAndAckReqAreNotEchoed, "9.2",
             "SE and AckReq of a request are not in its answer") {
    connect();
    set_word(64, 1);
    peer({read_request(2000, 8).solicited(), fetch_add_request(2001, 1, 64).solicited(),
          write_only(2002, 8, 128).solicited()});
    sends({response_only(2000, 3, 8).credits(0), atomic_ack(2001, 3, 1).credits(0), acked(2002, 3)});
}

// --- ICRC and addresses -----------------------------------------------------------------------------------

CONFORM_CASE(ResponderHeader, WrongIcrc, "7.8.1 (A17.3.3)",
             "a wrong ICRC: dropped, not even a NAK; the packet is still missing") {
    connect();
    peer(
        {write_only(2000, 8).bad_icrc(), write_only(2001, 8, 64).bad_icrc(), write_only(1999, 8).bad_icrc()});
    silence(kSecond);
    holds_own_data(0, 128);
    peer(unasked(write_only(2001, 8, 64)));
    sends(sequence_nak(2000, 0));
}

CONFORM_CASE(ResponderHeader, EveryByteIsCovered, "7.8.1 (A17.3.3)",
             "a bit flipped in any byte of headers, payload, pad or ICRC: dropped") {
    connect();
    constexpr std::size_t kBytes = 12 + 16 + 5 + 3 + 4;  // BTH, RETH, payload, pad, ICRC
    for (std::size_t at = 0; at < kBytes; ++at) {
        if (at == 4) {
            continue;  // FECN and BECN may change on the way
        }
        peer(write_only(2000, 5).flips_on_the_way(kBth + at, 0x10));
    }
    silence(kSecond);
    holds_own_data(0, 16);
    state(QpState::kRts);
    peer(write_only(2000, 5));
    sends(acked(2000, 1));
}

CONFORM_CASE(ResponderHeader, WhatRoutersMayChange, "7.8.1 (A17.3.3)",
             "TTL, DSCP, ECN, FECN and BECN that change on the way do not spoil the ICRC") {
    connect();
    peer(write_only(2000, 8).flips_on_the_way(kBth + 4, 0xc0));
    sends(acked(2000, 1));
    peer(write_only(2001, 8).routed());
    sends(acked(2001, 2));
}

CONFORM_CASE(ResponderHeader, FromAnotherAddress, "9.6.1.2 (A17)",
             "right QP, key and PSN from another GID: dropped and counted") {
    connect();
    wire::Gid other = peer_gid();
    other[15] ^= 1;
    peer({write_only(2000, 8).source(other), read_request(2000, 8).source(other),
          write_only(1999, 8).source(other)});
    silence(kSecond);
    holds_own_data(0, 8);
    counts(&Counters::drop_not_for_us, 3);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

// --- States -----------------------------------------------------------------------------------------------

CONFORM_CASE(
    ResponderState, Reset, "10.3.1.1",
    "RESET: requests are dropped, receives are gone; the QP can be connected anew and begins with MSN 0") {
    connect();
    post_receive(100, 64);
    peer(write_only(2000, 8));
    sends(acked(2000, 1, 1));
    modify(QpState::kReset);
    peer({write_only(2001, 8, 64), read_request(2001, 8)});
    silence(kSecond);
    holds_own_data(64, 8);
    counts(&Counters::drop_qp_state, 2);
    init();
    rtr();
    rts();
    peer(write_only(2000, 8, 64));
    sends(acked(2000, 1));
    holds_peer_data(64, 8, 64);
    peer(send_only(2001, 8));
    sends(rnr_nak(2001, 1, 12));
}

CONFORM_CASE(ResponderState, Init, "10.3.1.2", "INIT: requests are dropped, receives stay posted for later") {
    create();
    post_receive(100, 64);
    peer(send_only(2000, 8));
    silence(kSecond);
    receives({});
    counts(&Counters::drop_qp_state, 1);
    rtr();
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8));
    raises({AsyncEventType::kCommEst});
}

CONFORM_CASE(
    ResponderState, Rtr, "10.3.1.3",
    "RTR: every request is executed and answered before RTS; communication established is raised once") {
    create({.mtu = 256});
    post_receive(100, 64, 4096);
    rtr();
    set_word(64, 6);
    peer({send_only(2000, 8), write_only(2001, 8, 8192), fetch_add_request(2002, 1, 64)});
    sends(atomic_ack(2002, 3, 6).credits(0));
    raises({AsyncEventType::kCommEst});
    receives(ok(100).bytes(8));
    peer(read_request(2003, 300, 16384));
    sends({response_first(2003, 4, 256, 16384).credits(0), response_last(2004, 4, 44, 16640).credits(0)});
    peer(send_only(2005, 8));
    sends(rnr_nak(2005, 4, 12));
    peer(unasked(write_only(2007, 8)));  // still silent: 2005 is awaited
    silence(kSecond);
    rts();
    post_receive(101, 64);
    peer(send_only(2005, 8));
    sends(is_selective() ? sequence_nak(2006, 5) : acked(2005, 5));  // 2007 is held, and 2006 is missing
    receives(ok(101));
}

CONFORM_CASE(ResponderState, RtrRefuses, "10.3.1.3",
             "RTR: a bad request draws its NAK and takes the QP to ERR") {
    create();
    rtr();
    peer(write_last(2000, 8));
    sends(nak(2000, 0, wire::kNakInvalidRequest));
    state(QpState::kErr);
    raises({AsyncEventType::kCommEst, AsyncEventType::kQpReqErr});
}

CONFORM_CASE(ResponderState, Sqd, "10.3.1.5",
             "SQD: the responder continues, with SEND, WRITE, READ, atomics and NAKs") {
    connect({.mtu = 256});
    post_receive(100, 64, 4096);
    modify(QpState::kSqd);
    set_word(64, 6);
    peer({send_only(2000, 8), write_only(2001, 8, 8192), fetch_add_request(2002, 1, 64)});
    sends(atomic_ack(2002, 3, 6).credits(0));
    receives(ok(100).bytes(8));
    peer(read_request(2003, 300, 16384));
    sends({response_first(2003, 4, 256, 16384).credits(0), response_last(2004, 4, 44, 16640).credits(0)});
    peer(unasked(write_only(2006, 8)));
    sends(sequence_nak(2005, 4));
    state(QpState::kSqd);
}

CONFORM_CASE(ResponderState, Err, "10.3.1.7",
             "ERR: requests are dropped without an answer, receives are flushed in order") {
    connect();
    for (std::uint64_t i = 0; i < 3; ++i) {
        post_receive(100 + i, 64);
    }
    modify(QpState::kErr);
    receives({flushed(100), flushed(101), flushed(102)});
    peer({send_only(2000, 8), write_only(2000, 8), read_request(2000, 8), fetch_add_request(2000, 1)});
    silence(kSecond);
    holds_own_data(0, 8);
    counts(&Counters::drop_qp_state, 4);
}

CONFORM_CASE(ResponderState, ErrInsideAMessage, "10.3.1.7",
             "modify_qp to ERR inside a SEND: the receive in use is flushed with the others") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    post_receive(101, 1024);
    peer(unasked(send_first(2000, 256)));
    modify(QpState::kErr);
    receives({flushed(100), flushed(101)});
    peer(send_last(2001, 8));
    silence(kSecond);
}

CONFORM_CASE(
    ResponderState, AnewAfterReset, "10.3.1.1",
    "RESET inside a message, with a NAK sent and atomics saved: the next connection knows nothing of it") {
    connect({.mtu = 256});
    set_word(64, 1);
    post_receive(100, 1024, 8192);
    peer({fetch_add_request(2000, 1, 64), unasked(send_first(2001, 256)), unasked(send_last(2003, 8))});
    sends({atomic_ack(2000, 1, 1).credits(1), sequence_nak(2002, 1)});
    modify(QpState::kReset);
    init();
    rtr();
    rts();
    peer(unasked(write_only(2001, 8, 4096)));
    sends(sequence_nak(2000, 0));
    peer(write_only(2000, 8, 4096));
    peer(fetch_add_request(2000, 1, 64));
    const std::uint32_t done = is_selective() ? 2 : 1;  // 2001 is held until 2000 has come
    sends(acked(1999 + done, done));
    silence(kSecond);
    holds_word(64, 2);
    peer(send_only(2000 + done, 8));
    sends(rnr_nak(2000 + done, done, 12));
}

}  // namespace
}  // namespace urnic::conform
