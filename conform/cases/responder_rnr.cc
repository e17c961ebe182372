// The responder without a receive to put a message in (IBA 9.7.5.2.8), and with a receive that does not
// serve.
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(ResponderRnr, ThenSuccess, "9.7.5.2.8",
             "SEND without a receive: RNR NAK with its PSN; sent again when there is one, it is delivered") {
    connect({.min_rnr_timer = 12});
    peer(send_only(2000, 8));
    sends(rnr_nak(2000, 0, 12));
    post_receive(100, 64);
    silence(kSecond);
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8));
    holds_peer_data(0, 8, 0);
    counts(&Counters::send_rnr_err, 1);
}

CONFORM_CASE(ResponderRnr, TimerCode, "9.7.5.2.8",
             "the RNR NAK carries the QP's minimum RNR timer, for each code") {
    for (std::uint8_t code = 0; code < 32; ++code) {
        connect({.min_rnr_timer = code});
        peer(send_only(2000, 8));
        sends(rnr_nak(2000, 0, code));
    }
}

CONFORM_CASE(ResponderRnr, TimerChangedInRts, "11.2.5.2",
             "a minimum RNR timer that modify_qp changes in RTS is in the next RNR NAK") {
    connect({.min_rnr_timer = 12});
    peer(send_only(2000, 8));
    sends(rnr_nak(2000, 0, 12));
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrMinRnrTimer;
    attr.state = QpState::kRts;
    attr.min_rnr_timer = 31;
    require(modify(attr) == 0, "modify_qp was refused");
    peer(send_only(2000, 8));
    sends(rnr_nak(2000, 0, 31));
}

CONFORM_CASE(ResponderRnr, OnceForABurst, "9.7.5.2.8",
             "what follows the refused SEND is ignored until that PSN comes again") {
    connect();
    peer({send_only(2000, 8), unasked(write_only(2001, 8, 4096)), unasked(write_only(2002, 8, 8192))});
    sends(rnr_nak(2000, 0, 12));
    post_receive(100, 64);
    peer(unasked(write_only(2003, 8, 64)));
    silence(kSecond);
    peer({send_only(2000, 8), unasked(write_only(2001, 8, 4096)), write_only(2002, 8, 8192)});
    sends(is_selective() ? acked(2003, 4) : acked(2002, 3));  // 2003 came early and is held
    receives(ok(100).bytes(8));
    holds_peer_data(4096, 8, 4096);
    holds_peer_data(8192, 8, 8192);
}

CONFORM_CASE(ResponderRnr, AgainWhileNothingIsPosted, "9.7.5.2.8",
             "each time that the SEND comes without a receive, an RNR NAK goes back") {
    connect();
    for (int i = 0; i < 10; ++i) {
        peer(send_only(2000, 8));
        sends(rnr_nak(2000, 0, 12));
    }
    post_receive(100, 64);
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100));
}

CONFORM_CASE(ResponderRnr, First, "9.7.5.2.8", "a message of many packets is refused at its First") {
    connect({.mtu = 256});
    peer({send_first(2000, 256), unasked(send_middle(2001, 256, 256)), unasked(send_last(2002, 8, 512))});
    sends(rnr_nak(2000, 0, 12));
    post_receive(100, 1024);
    peer({send_first(2000, 256), send_middle(2001, 256, 256), send_last(2002, 8, 512)});
    sends(acked(2002, 1));
    receives(ok(100).bytes(520));
    holds_peer_data(0, 520, 0);
}

CONFORM_CASE(ResponderRnr, SaysWhatCameBefore, "9.7.5.2.8",
             "the RNR NAK acknowledges the requests before it; MSN counts them") {
    connect();
    peer({unasked(write_only(2000, 8)), unasked(write_only(2001, 8)), send_only(2002, 8)});
    sends(rnr_nak(2002, 2, 12));
}

CONFORM_CASE(ResponderRnr, BehindAReadResponse, "9.7.5.1.1",
             "the responses of a READ before it go out first, then the RNR NAK") {
    connect({.mtu = 256});
    peer({read_request(2000, 300), send_only(2002, 8)});
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 44, 256).credits(0),
           rnr_nak(2002, 1, 12)});
}

CONFORM_CASE(ResponderRnr, WriteWithImmediate, "9.7.5.2.8",
             "WRITE Only with Immediate needs a receive: RNR NAK, then success") {
    connect();
    peer(packet(wire::kWriteOnlyImm, 2000, 8).imm(7));
    sends(rnr_nak(2000, 0, 12));
    post_receive(100, 64, 4096);
    peer(packet(wire::kWriteOnlyImm, 2000, 8).imm(7));
    sends(acked(2000, 1));
    receives(ok(100).bytes(8).op(WcOpcode::kRecvRdmaWithImm).with_imm(7));
    holds_peer_data(0, 8, 0);
}

CONFORM_CASE(
    ResponderRnr, WriteLastWithImmediate, "9.7.5.2.8",
    "a WRITE whose Last alone carries the immediate is refused at its Last and continues from there") {
    connect({.mtu = 256});
    peer({write_first(2000, 520, 256), write_middle(2001, 256, 256),
          packet(wire::kWriteLastImm, 2002, 8, 512).imm(7)});
    sends(rnr_nak(2002, 0, 12));
    receives({});
    post_receive(100, 64, 4096);
    peer(packet(wire::kWriteLastImm, 2002, 8, 512).imm(7));
    sends(acked(2002, 1));
    receives(ok(100).bytes(520).op(WcOpcode::kRecvRdmaWithImm).with_imm(7));
    holds_peer_data(0, 520, 0);
}

CONFORM_CASE(ResponderRnr, OnlyWhatTakesAReceive, "9.7.5.2.8", "WRITE, READ and atomics need no receive") {
    connect();
    set_word(64, 3);
    peer({write_only(2000, 8, 4096), read_request(2001, 8), fetch_add_request(2002, 1, 64)});
    sends({response_only(2001, 3, 8).credits(0), atomic_ack(2002, 3, 3).credits(0)});
}

CONFORM_CASE(ResponderRnr, NotForADuplicate, "9.7.5.1.5",
             "a SEND that was delivered and comes again needs no receive") {
    connect();
    post_receive(100, 64);
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
    receives(ok(100));
    peer(send_only(2000, 8));
    sends(acked(2000, 1));
}

// --- Receives that do not serve ---------------------------------------------------------------------------

CONFORM_CASE(ResponderReceive, TooShort, "9.7.4.1.6",
             "SEND longer than its receive: NAK invalid request, WC local length error, not a byte stored") {
    connect();
    post_receive(100, 63);
    post_receive(101, 64, 4096);
    peer(send_only(2000, 64));
    sends(nak(2000, 0, wire::kNakInvalidRequest));
    state(QpState::kErr);
    receives({failed(100, WcStatus::kLocLenErr), flushed(101)});
    holds_own_data(0, 64);
    holds_own_data(4096, 64);
}

CONFORM_CASE(ResponderReceive, TooShortForTheLast, "9.7.4.1.6",
             "the packet that no longer fits is refused; what came before it was") {
    connect({.mtu = 256});
    post_receive(100, 512 + 7);
    peer({unasked(send_first(2000, 256)), unasked(send_middle(2001, 256, 256)), send_last(2002, 8, 512)});
    sends(nak(2002, 0, wire::kNakInvalidRequest));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kLocLenErr));
    holds_own_data(512, 8);
}

CONFORM_CASE(ResponderReceive, NoRoomAtAll, "9.7.4.1.6", "a receive without segments takes no byte") {
    connect();
    post_receive(100, std::vector<abi::Sge>{});
    peer(send_only(2000, 1));
    sends(nak(2000, 0, wire::kNakInvalidRequest));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kLocLenErr));
}

}  // namespace
}  // namespace urnic::conform
