// What is looked at before a request reaches the responder: transport header, addresses, ICRC, the QP's state
// (IBA 9.6.1, 10.3.1, annex A17). What does not pass is dropped and draws no answer.
#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

constexpr std::size_t kBth = 20 + 8;  // behind IPv4 and UDP

// --- BTH --------------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderHeader, WrongPkey, "9.6.1.1",
          "another P_Key: dropped and counted; the same packet with ours is taken") {
    connect();
    for (const std::uint16_t pkey : {0x8001, 0x7ffe, 0x0000, 0xfffe}) {
        peer(write_only(2000, 8).pkey(pkey));
    }
    silence(kSecond);
    EXPECT_EQ(host().counters.drop_pkey.value(), 4U);
    holds_own_data(0, 8);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

RC_SCRIPT(
    ResponderHeader, LimitedMembers, "10.9.1.2",
    "a full member talks to limited ones, limited ones do not talk to each other; answers carry our P_Key") {
    connect();
    peer(write_only(2000, 8).pkey(0x7fff));
    sends(acked(2000, 1).pkey(0xffff));
    connect({}, {.pkeys = {0x7fff}});
    peer(write_only(2000, 8).pkey(0x7fff));
    silence(kSecond);
    EXPECT_EQ(host().counters.drop_pkey.value(), 1U);
    peer(write_only(2000, 8).pkey(0xffff));
    sends(acked(2000, 1).pkey(0x7fff));
}

RC_SCRIPT(ResponderHeader, PkeyOfTheIndex, "10.9.3",
          "the P_Key at the QP's index alone: those of other entries are dropped; answers carry it") {
    connect({}, {.pkeys = {0xffff, 0x7abc, 0x8002}, .pkey_index = 1});
    for (const std::uint16_t pkey : {0xffff, 0x8002, 0x7abc}) {
        peer(write_only(2000, 8).pkey(pkey));
    }
    silence(kSecond);
    EXPECT_EQ(host().counters.drop_pkey.value(), 3U);
    holds_own_data(0, 8);
    peer(write_only(2000, 8).pkey(0xfabc));
    sends(acked(2000, 1).pkey(0x7abc));
}

RC_SCRIPT(ResponderHeader, WrongTver, "9.6.1.1", "TVer other than 0: dropped") {
    connect();
    for (std::uint8_t tver = 1; tver < 16; ++tver) {
        peer(write_only(2000, 8).tver(tver));
    }
    silence(kSecond);
    holds_own_data(0, 8);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

RC_SCRIPT(ResponderHeader, DestQpUnknown, "9.6.1.1", "another DestQP, or the multicast one: dropped") {
    connect();
    for (const std::uint32_t qp_num : {3U, 0x80'0001U, 0xff'ffffU}) {
        peer(write_only(2000, 8).dest_qp(qp_num));
    }
    silence(kSecond);
    holds_own_data(0, 8);
    state(QpState::kRts);
}

RC_SCRIPT(
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
    EXPECT_EQ(host().counters.drop_opcode.value(), sent - kMalformed);
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8));
}

RC_SCRIPT(ResponderHeader, ReservedBits, "9.2", "reserved bits of the BTH are ignored at the receiver") {
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

RC_SCRIPT(ResponderHeader, MigReq, "9.2",
          "requests with MigReq 0 and 1 are taken; without path migration answers carry 1") {
    connect();
    peer(write_only(2000, 8).mig_req(false));
    sends(acked(2000, 1).mig_req(true));
    peer(write_only(2001, 8).mig_req(true));
    sends(acked(2001, 2).mig_req(true));
    state(QpState::kRts);
}

RC_SCRIPT(ResponderHeader, CongestionMarks, "9.2 (A17)", "FECN and BECN change nothing about a request") {
    connect();
    peer({write_only(2000, 8).flips(4, 0x80), write_only(2001, 8).flips(4, 0x40)});
    sends(acked(2001, 2));
}

RC_SCRIPT(ResponderHeader, SolicitedAndAckReqAreNotEchoed, "9.2",
          "SE and AckReq of a request are not in its answer") {
    connect();
    word(64) = 1;
    peer({read_request(2000, 8).solicited(), fetch_add_request(2001, 1, 64).solicited(),
          write_only(2002, 8, 128).solicited()});
    sends({response_only(2000, 3, 8).credits(0), atomic_ack(2001, 3, 1).credits(0), acked(2002, 3)});
}

// --- ICRC and addresses -----------------------------------------------------------------------------------

RC_SCRIPT(ResponderHeader, WrongIcrc, "7.8.1 (A17.3.3)",
          "a wrong ICRC: dropped, not even a NAK; the packet is still missing") {
    connect();
    peer(
        {write_only(2000, 8).bad_icrc(), write_only(2001, 8, 64).bad_icrc(), write_only(1999, 8).bad_icrc()});
    silence(kSecond);
    holds_own_data(0, 128);
    peer(unasked(write_only(2001, 8, 64)));
    sends(sequence_nak(2000, 0));
}

RC_SCRIPT(ResponderHeader, EveryByteIsCovered, "7.8.1 (A17.3.3)",
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

RC_SCRIPT(ResponderHeader, WhatRoutersMayChange, "7.8.1 (A17.3.3)",
          "TTL, DSCP, ECN, FECN and BECN that change on the way do not spoil the ICRC") {
    connect();
    peer(write_only(2000, 8).flips_on_the_way(kBth + 4, 0xc0));
    sends(acked(2000, 1));
    peer(write_only(2001, 8).routed());
    sends(acked(2001, 2));
}

RC_SCRIPT(ResponderHeader, FromAnotherAddress, "9.6.1.2 (A17)",
          "right QP, key and PSN from another GID: dropped and counted") {
    connect();
    wire::Gid other = peer_gid();
    other[15] ^= 1;
    peer({write_only(2000, 8).source(other), read_request(2000, 8).source(other),
          write_only(1999, 8).source(other)});
    silence(kSecond);
    holds_own_data(0, 8);
    EXPECT_EQ(host().counters.drop_not_for_us.value(), 3U);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

// --- States -----------------------------------------------------------------------------------------------

RC_SCRIPT(
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
    EXPECT_EQ(host().counters.drop_qp_state.value(), 2U);
    host().to_init();
    rtr();
    rts();
    peer(write_only(2000, 8, 64));
    sends(acked(2000, 1));
    holds_peer_data(64, 8, 64);
    peer(send_only(2001, 8));
    sends(rnr_nak(2001, 1, 12));
}

RC_SCRIPT(ResponderState, Init, "10.3.1.2", "INIT: requests are dropped, receives stay posted for later") {
    create();
    post_receive(100, 64);
    peer(send_only(2000, 8));
    silence(kSecond);
    receives({});
    EXPECT_EQ(host().counters.drop_qp_state.value(), 1U);
    rtr();
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8));
    raises({AsyncEventType::kCommEst});
}

RC_SCRIPT(
    ResponderState, Rtr, "10.3.1.3",
    "RTR: every request is carried out and answered before RTS; communication established is raised once") {
    create({.mtu = 256});
    post_receive(100, 64, 4096);
    rtr();
    word(64) = 6;
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

RC_SCRIPT(ResponderState, RtrRefuses, "10.3.1.3",
          "RTR: a bad request draws its NAK and takes the QP to ERR") {
    create();
    rtr();
    peer(write_last(2000, 8));
    sends(nak(2000, 0, wire::kNakInvalidRequest));
    state(QpState::kErr);
    raises({AsyncEventType::kCommEst, AsyncEventType::kQpReqErr});
}

RC_SCRIPT(ResponderState, Sqd, "10.3.1.5",
          "SQD: the responder goes on, with SEND, WRITE, READ, atomics and NAKs") {
    connect({.mtu = 256});
    post_receive(100, 64, 4096);
    modify(QpState::kSqd);
    word(64) = 6;
    peer({send_only(2000, 8), write_only(2001, 8, 8192), fetch_add_request(2002, 1, 64)});
    sends(atomic_ack(2002, 3, 6).credits(0));
    receives(ok(100).bytes(8));
    peer(read_request(2003, 300, 16384));
    sends({response_first(2003, 4, 256, 16384).credits(0), response_last(2004, 4, 44, 16640).credits(0)});
    peer(unasked(write_only(2006, 8)));
    sends(sequence_nak(2005, 4));
    state(QpState::kSqd);
}

RC_SCRIPT(ResponderState, Err, "10.3.1.7",
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
    EXPECT_EQ(host().counters.drop_qp_state.value(), 4U);
}

RC_SCRIPT(ResponderState, ErrInsideAMessage, "10.3.1.7",
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

RC_SCRIPT(ResponderState, ErrWithResponsesOwed, "10.3.1.7",
          "modify_qp to ERR while a READ is answered: no response goes out behind it") {
    connect({.mtu = 256});
    wire::PacketView view;
    view.header = read_request(2000, 1024).header();
    view.src_gid = peer_gid();
    host().deliver(view);
    ASSERT_TRUE(host().qp().progress(now(), 1, host()));
    sends(response_first(2000, 1, 256).credits(0));
    modify(QpState::kErr);
    silence(kSecond);
}

RC_SCRIPT(ResponderState, ErrWithANakOwed, "10.3.1.7",
          "modify_qp to ERR before a NAK went out: it does not go out any more") {
    connect();
    wire::PacketView view;
    view.header = write_only(2001, 0).header();
    view.src_gid = peer_gid();
    host().deliver(view);
    modify(QpState::kErr);
    silence(kSecond);
}

RC_SCRIPT(
    ResponderState, AnewAfterReset, "10.3.1.1",
    "RESET inside a message, with a NAK sent and atomics saved: the next connection knows nothing of it") {
    connect({.mtu = 256});
    word(64) = 1;
    post_receive(100, 1024, 8192);
    peer({fetch_add_request(2000, 1, 64), unasked(send_first(2001, 256)), unasked(send_last(2003, 8))});
    sends({atomic_ack(2000, 1, 1).credits(1), sequence_nak(2002, 1)});
    modify(QpState::kReset);
    host().to_init();
    rtr();
    rts();
    peer(unasked(write_only(2001, 8, 4096)));
    sends(sequence_nak(2000, 0));
    peer(write_only(2000, 8, 4096));
    peer(fetch_add_request(2000, 1, 64));
    const std::uint32_t done = is_selective() ? 2 : 1;  // 2001 is held until 2000 has come
    sends(acked(1999 + done, done));
    silence(kSecond);
    EXPECT_EQ(word(64), 2U);
    peer(send_only(2000 + done, 8));
    sends(rnr_nak(2000 + done, done, 12));
}

}  // namespace
}  // namespace urnic::sim
