// Requests whose opcode is out of place, reserved or not offered (IBA 9.7.4.1.2, 9.7.4.1.3), and what the
// responder does from then on (IBA 9.9.3, class C).
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

// --- Middle and Last without First ------------------------------------------------------------------------

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

}  // namespace
}  // namespace urnic::sim
