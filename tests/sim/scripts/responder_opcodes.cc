// Requests whose opcode is out of place, reserved or not offered (IBA 9.7.4.1.2, 9.7.4.1.3), and what the
// responder does from then on (IBA 9.9.3, class C).
#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

// --- Middle and Last without First ------------------------------------------------------------------------

RC_SCRIPT(ResponderOpcode, SendMiddleAlone, "9.7.4.1.2", "SEND Middle without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(unasked(send_middle(2000, 256)));
    refuses(2000, 0, kInvalid);
}

RC_SCRIPT(ResponderOpcode, SendLastAlone, "9.7.4.1.2",
          "SEND Last without First: NAK invalid request, no receive is taken") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer(send_last(2000, 8));
    refuses(2000, 0, kInvalid);
    receives(flushed(100));
    holds_own_data(0, 8);
}

RC_SCRIPT(ResponderOpcode, SendLastImmAlone, "9.7.4.1.2",
          "SEND Last with Immediate without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(packet(wire::kSendLastImm, 2000, 8));
    refuses(2000, 0, kInvalid);
}

RC_SCRIPT(ResponderOpcode, WriteMiddleAlone, "9.7.4.1.2", "WRITE Middle without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(unasked(write_middle(2000, 256)));
    refuses(2000, 0, kInvalid);
    holds_own_data(0, 256);
}

RC_SCRIPT(ResponderOpcode, WriteLastAlone, "9.7.4.1.2", "WRITE Last without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(write_last(2000, 8));
    refuses(2000, 0, kInvalid);
    holds_own_data(0, 8);
}

RC_SCRIPT(ResponderOpcode, WriteLastImmAlone, "9.7.4.1.2",
          "WRITE Last with Immediate without First: NAK invalid request, no receive is taken") {
    connect({.mtu = 256});
    post_receive(100, 64);
    peer(packet(wire::kWriteLastImm, 2000, 8));
    refuses(2000, 0, kInvalid);
    receives(flushed(100));
}

RC_SCRIPT(ResponderOpcode, MiddleBehindALast, "9.7.4.1.2",
          "Last ends its message: a Middle behind it has no First") {
    connect({.mtu = 256});
    peer({write_first(2000, 264, 256), write_last(2001, 8, 256), unasked(write_middle(2002, 256, 512))});
    refuses(2002, 1, kInvalid);
    holds_own_data(512, 256);
}

RC_SCRIPT(ResponderOpcode, LastBehindAnOnly, "9.7.4.1.2",
          "Only begins and ends its message: a Last behind it has no First") {
    connect({.mtu = 256});
    peer({write_only(2000, 8), write_last(2001, 8, 256)});
    refuses(2001, 1, kInvalid);
}

// --- What may not come inside a message -------------------------------------------------------------------

RC_SCRIPT(
    ResponderOpcode, InsideASend, "9.7.4.1.2",
    "inside a SEND: First, Only, WRITE, READ or atomics: NAK invalid request, the receive in use fails") {
    const std::uint8_t operations[] = {wire::kSendFirst,    wire::kSendOnly,    wire::kSendOnlyImm,
                                       wire::kWriteFirst,   wire::kWriteMiddle, wire::kWriteLast,
                                       wire::kWriteLastImm, wire::kWriteOnly,   wire::kWriteOnlyImm,
                                       wire::kReadRequest,  wire::kFetchAdd,    wire::kCompareSwap};
    for (const std::uint8_t operation : operations) {
        SCOPED_TRACE(wire::opcode_info(operation).name);
        connect({.mtu = 256});
        post_receive(100, 1024);
        post_receive(101, 1024, 4096);
        word(8192) = 3;
        peer(unasked(send_first(2000, 256)));
        peer(packet(operation, 2001, 256, 8192));
        sends(nak(2001, 0, kInvalid));
        state(QpState::kErr);
        receives({failed(100, WcStatus::kRemInvReqErr), flushed(101)});
        EXPECT_EQ(word(8192), 3U);
        holds_own_data(256, 768);
        holds_own_data(4096, 1024);
    }
}

RC_SCRIPT(ResponderOpcode, InsideAWrite, "9.7.4.1.2",
          "inside a WRITE: First, Only, SEND, READ or atomics: NAK invalid request") {
    const std::uint8_t operations[] = {wire::kWriteFirst,  wire::kWriteOnly,   wire::kWriteOnlyImm,
                                       wire::kSendFirst,   wire::kSendMiddle,  wire::kSendLast,
                                       wire::kSendLastImm, wire::kSendOnly,    wire::kSendOnlyImm,
                                       wire::kReadRequest, wire::kCompareSwap, wire::kFetchAdd};
    for (const std::uint8_t operation : operations) {
        SCOPED_TRACE(wire::opcode_info(operation).name);
        connect({.mtu = 256});
        post_receive(100, 1024);
        word(8192) = 3;
        peer(unasked(write_first(2000, 1024, 256, 4096)));
        peer(packet(operation, 2001, 256, 8192));
        refuses(2001, 0, kInvalid);
        receives(flushed(100));
        EXPECT_EQ(word(8192), 3U);
        holds_own_data(0, 1024);
        holds_own_data(4096 + 256, 768);
    }
}

// --- Reserved, or not offered -----------------------------------------------------------------------------

RC_SCRIPT(ResponderOpcode, Reserved, "9.7.4.1.3",
          "a reserved RC opcode, of any length: NAK invalid request") {
    for (const std::uint8_t opcode : {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f}) {
        for (const std::uint32_t length : {0U, 8U, 256U}) {
            connect({.mtu = 256});
            post_receive(100, 1024);
            peer(packet(wire::kSendOnly, 2000, length).opcode_lie(opcode));
            refuses(2000, 0, kInvalid);
            receives(flushed(100));
            holds_own_data(0, 1024);
        }
    }
}

RC_SCRIPT(ResponderOpcode, ReservedInsideAMessage, "9.7.4.1.3",
          "a reserved RC opcode inside a SEND: NAK invalid request, the receive in use fails") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer({unasked(send_first(2000, 256)), packet(wire::kSendOnly, 2001, 256).opcode_lie(0x1b)});
    sends(nak(2001, 0, kInvalid));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kRemInvReqErr));
}

// --- From then on -----------------------------------------------------------------------------------------

RC_SCRIPT(ResponderOpcode, ResponsesBeforeTheNak, "9.7.5.1.1",
          "a READ before the bad request is answered in full, then comes the NAK") {
    connect({.mtu = 256});
    host().packets_per_progress = 1;
    word(4096) = 9;
    peer({read_request(2000, 600), fetch_add_request(2003, 1, 4096), write_last(2004, 8)});
    sends({response_first(2000, 2, 256).credits(0), response_middle(2001, 256, 256),
           response_last(2002, 2, 88, 512).credits(0), atomic_ack(2003, 2, 9).credits(0)});
    refuses(2004, 2, kInvalid);
}

RC_SCRIPT(ResponderOpcode, SilenceBehindTheNak, "9.9.3",
          "behind the NAK nothing is carried out and nothing answered") {
    connect();
    peer({write_only(2000, 8), write_last(2001, 8)});
    refuses(2001, 1, kInvalid);
    peer({write_only(2000, 8, 64), write_only(2001, 8, 64), write_only(2002, 8, 64), read_request(2001, 8)});
    silence(kSecond);
    holds_own_data(64, 8);
    raises({});
}

RC_SCRIPT(ResponderOpcode, WhatIsPostedIsFlushed, "9.9.3",
          "send and receive requests outstanding at the NAK are flushed, in order") {
    connect();
    post_receive(100, 64);
    post_receive(101, 64);
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(write_last(2000, 8));
    refuses(2000, 0, kInvalid);
    completes({flushed(1), flushed(2)});
    receives({flushed(100), flushed(101)});
    post_receive(102, 64);
    receives(flushed(102));
}

}  // namespace
}  // namespace urnic::sim
