// Requests whose opcode is out of place, reserved or not offered (IBA 9.7.4.1.2, 9.7.4.1.3), and what the
// responder does from then on (IBA 9.9.3, class C).
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

// --- Middle and Last without First ------------------------------------------------------------------------

CONFORM_CASE(ResponderOpcode, SendMiddleAlone, "9.7.4.1.2",
             "SEND Middle without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(unasked(send_middle(2000, 256)));
    refuses(2000, 0, kInvalid);
}

CONFORM_CASE(ResponderOpcode, SendLastAlone, "9.7.4.1.2",
             "SEND Last without First: NAK invalid request, no receive is taken") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer(send_last(2000, 8));
    refuses(2000, 0, kInvalid);
    receives(flushed(100));
    holds_own_data(0, 8);
}

CONFORM_CASE(ResponderOpcode, SendLastImmAlone, "9.7.4.1.2",
             "SEND Last with Immediate without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(packet(wire::kSendLastImm, 2000, 8));
    refuses(2000, 0, kInvalid);
}

CONFORM_CASE(ResponderOpcode, WriteMiddleAlone, "9.7.4.1.2",
             "WRITE Middle without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(unasked(write_middle(2000, 256)));
    refuses(2000, 0, kInvalid);
    holds_own_data(0, 256);
}

CONFORM_CASE(ResponderOpcode, WriteLastAlone, "9.7.4.1.2", "WRITE Last without First: NAK invalid request") {
    connect({.mtu = 256});
    peer(write_last(2000, 8));
    refuses(2000, 0, kInvalid);
    holds_own_data(0, 8);
}

CONFORM_CASE(ResponderOpcode, WriteLastImmAlone, "9.7.4.1.2",
             "WRITE Last with Immediate without First: NAK invalid request, no receive is taken") {
    connect({.mtu = 256});
    post_receive(100, 64);
    peer(packet(wire::kWriteLastImm, 2000, 8));
    refuses(2000, 0, kInvalid);
    receives(flushed(100));
}

CONFORM_CASE(ResponderOpcode, MiddleBehindALast, "9.7.4.1.2",
             "Last ends its message: a Middle behind it has no First") {
    connect({.mtu = 256});
    peer({write_first(2000, 264, 256), write_last(2001, 8, 256), unasked(write_middle(2002, 256, 512))});
    refuses(2002, 1, kInvalid);
    holds_own_data(512, 256);
}

CONFORM_CASE(ResponderOpcode, LastBehindAnOnly, "9.7.4.1.2",
             "Only begins and ends its message: a Last behind it has no First") {
    connect({.mtu = 256});
    peer({write_only(2000, 8), write_last(2001, 8, 256)});
    refuses(2001, 1, kInvalid);
}

// --- What may not come inside a message -------------------------------------------------------------------

// --- Reserved, or not offered -----------------------------------------------------------------------------

CONFORM_CASE(ResponderOpcode, Reserved, "9.7.4.1.3",
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

CONFORM_CASE(ResponderOpcode, ReservedInsideAMessage, "9.7.4.1.3",
             "a reserved RC opcode inside a SEND: NAK invalid request, the receive in use fails") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer({unasked(send_first(2000, 256)), packet(wire::kSendOnly, 2001, 256).opcode_lie(0x1b)});
    sends(nak(2001, 0, kInvalid));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kRemInvReqErr));
}

// --- From then on -----------------------------------------------------------------------------------------

CONFORM_CASE(ResponderOpcode, SilenceBehindTheNak, "9.9.3",
             "behind the NAK nothing is executed and nothing answered") {
    connect();
    peer({write_only(2000, 8), write_last(2001, 8)});
    refuses(2001, 1, kInvalid);
    peer({write_only(2000, 8, 64), write_only(2001, 8, 64), write_only(2002, 8, 64), read_request(2001, 8)});
    silence(kSecond);
    holds_own_data(64, 8);
    raises({});
}

CONFORM_CASE(ResponderOpcode, WhatIsPostedIsFlushed, "9.9.3",
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
}  // namespace urnic::conform
