// An XRC initiator: a requester whose packets name SRQs of the target's domain (annex A14).
#include "conform/case/case_list.h"
#include "conform/case/xrc_packets.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kOneSrq = 0x12'3456;
constexpr std::uint32_t kAnotherSrq = 0x00'0077;
constexpr std::uint32_t kImmediate = 0x8765'4321;

SendRequest to_srq(SendRequest request, std::uint32_t srq_number) {
    request.srq_number = srq_number;
    return request;
}

class XrcInitiator : public Script {
  protected:
    void connect_initiator(std::uint8_t timeout = ConnectOptions{}.timeout) {
        connect({.mtu = kXrcMtu, .timeout = timeout}, {.type = QpType::kXrcSend});
    }
    void peer_acknowledges(std::uint32_t psn, std::uint32_t msn) { peer(xrc(ack(psn, msn))); }
};

CONFORM_CASE_IN(
    XrcInitiator, SendNamesTheSrq, "A14",
    "a SEND has XRC's opcode, and the work request's SRQ number in its XRCETH; each one its own") {
    connect_initiator();
    post({to_srq(send(1, 8), kOneSrq), to_srq(send(2, 8, 64), kAnotherSrq)});
    sends({xrc(send_only(1000, 8), kOneSrq), xrc(send_only(1001, 8, 64), kAnotherSrq)});
    peer_acknowledges(1001, 2);
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(XrcInitiator, EachPacketNamesTheSrq, "A14",
                "First, Middle and Last of SENDs and WRITEs all have the XRCETH") {
    connect_initiator();
    post(to_srq(send(1, 2 * kXrcMtu + 8), kOneSrq));
    sends({xrc(send_first(1000, kXrcMtu), kOneSrq), xrc(send_middle(1001, kXrcMtu, kXrcMtu), kOneSrq),
           xrc(send_last(1002, 8, kThirdPacket), kOneSrq)});
    post(to_srq(write(2, 2 * kXrcMtu + 8), kAnotherSrq));
    sends({xrc(write_first(1003, 2 * kXrcMtu + 8, kXrcMtu), kAnotherSrq),
           xrc(write_middle(1004, kXrcMtu, kXrcMtu), kAnotherSrq),
           xrc(write_last(1005, 8, kThirdPacket), kAnotherSrq)});
    peer_acknowledges(1005, 2);
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(XrcInitiator, Immediate, "A14",
                "SEND and WRITE with Immediate: XRCETH, RETH, ImmDt in this order") {
    connect_initiator();
    post({to_srq(send_imm(1, 8, kImmediate), kOneSrq), to_srq(write_imm(2, 8, kImmediate), kOneSrq)});
    sends({xrc(packet(wire::kSendOnlyImm, 1000, 8).imm(kImmediate), kOneSrq),
           xrc(packet(wire::kWriteOnlyImm, 1001, 8).imm(kImmediate), kOneSrq)});
    peer_acknowledges(1001, 2);
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(XrcInitiator, ReadsAndAtomics, "A14",
                "READ and atomic requests have the XRCETH; their responses have none") {
    connect_initiator();
    post(to_srq(read(1, kXrcMtu + 8), kOneSrq));
    sends(xrc(read_request(1000, kXrcMtu + 8), kOneSrq));
    peer({xrc(response_first(1000, 1, kXrcMtu)), xrc(response_last(1001, 1, 8, kXrcMtu))});
    completes(ok(1));
    holds_peer_data(0, kXrcMtu + 8, 0);
    post({to_srq(fetch_add(2, 5, 512), kOneSrq), to_srq(compare_swap(3, 1, 2, 1024), kAnotherSrq)});
    sends({xrc(fetch_add_request(1002, 5, 512), kOneSrq),
           xrc(compare_swap_request(1003, 1, 2, 1024), kAnotherSrq)});
    peer({xrc(atomic_ack(1002, 2, 77)), xrc(atomic_ack(1003, 3, 78))});
    completes({ok(2), ok(3)});
    holds_word(512, 77);
    holds_word(1024, 78);
}

CONFORM_CASE_IN(XrcInitiator, GoesAgainAfterATimeout, "9.7.6.1.3 (A14)",
                "a request that is not answered goes again after the timeout, with its XRCETH") {
    connect_initiator(kTimeout);
    post(to_srq(send(1, 8), kOneSrq));
    sends(xrc(send_only(1000, 8), kOneSrq));
    sends_within(kLeast, kMost, xrc(send_only(1000, 8), kOneSrq));
    peer_acknowledges(1000, 1);
    completes(ok(1));
}

CONFORM_CASE_IN(XrcInitiator, SequenceNak, "9.7.5.2 (A14)",
                "NAK 0x60 of XRC's service: the request goes again, with its XRCETH") {
    connect_initiator();
    post(to_srq(write(1, 8), kOneSrq));
    sends(xrc(write_only(1000, 8), kOneSrq));
    peer(xrc(sequence_nak(1000, 0)));
    sends(xrc(write_only(1000, 8), kOneSrq));
    peer_acknowledges(1000, 1);
    completes(ok(1));
}

CONFORM_CASE_IN(XrcInitiator, WaitsForTheSrq, "9.7.5.2.8 (A14)",
                "an RNR NAK holds the request back for its time; then it goes again") {
    constexpr std::uint8_t kTimer = 26;  // 81.92 ms
    constexpr TimeNs kWait = 81'920'000;
    connect_initiator();
    post(to_srq(send(1, 8), kOneSrq));
    sends(xrc(send_only(1000, 8), kOneSrq));
    peer(xrc(rnr_nak(1000, 0, kTimer)));
    sends_within(kWait, 4 * kWait, xrc(send_only(1000, 8), kOneSrq));
    peer_acknowledges(1000, 1);
    completes(ok(1));
}

CONFORM_CASE_IN(XrcInitiator, InvalidRequest, "9.9.2 (A14)",
                "NAK invalid request, as for an SRQ that is not there: REM_INV_REQ_ERR and ERR") {
    connect_initiator();
    post({to_srq(send(1, 8), kOneSrq), to_srq(send(2, 8, 64), kAnotherSrq)});
    sends({xrc(send_only(1000, 8), kOneSrq), xrc(send_only(1001, 8, 64), kAnotherSrq)});
    peer(xrc(nak(1000, 0, kInvalid)));
    completes({failed(1, WcStatus::kRemInvReqErr), flushed(2)});
    state(QpState::kErr);
}

CONFORM_CASE_IN(XrcInitiator, WhatIsNotForAnInitiator, "A14 (9.6.1.2)",
                "XRC requests are dropped without an answer; an ACK of RC acknowledges nothing") {
    connect_initiator();
    peer(xrc(send_only(2000, 8), kOneSrq));
    sends_nothing();
    peer(xrc(write_only(2000, 8, 512), kOneSrq));
    sends_nothing();
    holds_own_data(512, 8);
    post(to_srq(send(1, 8), kOneSrq));
    sends(xrc(send_only(1000, 8), kOneSrq));
    peer(ack(1000, 1));
    completes_nothing();
    peer_acknowledges(1000, 1);
    completes(ok(1));
    state(QpState::kRts);
}

}  // namespace
}  // namespace urnic::conform
