// An XRC target: one QP that executes what several SRQs of its domain are for (annex A14).
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"
#include "conform/case/xrc_packets.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kSrqReceive = 1024;    // bytes of each receive
constexpr std::size_t kSecondBuffer = 0x4000;  // where the second SRQ's receives are
constexpr std::size_t kTargetData = 0x8000;    // what WRITEs, READs and atomics are about

class XrcTarget : public Script {
  protected:
    void connect_target() { connect({.mtu = kXrcMtu}, {.type = QpType::kXrcRecv}); }
    [[nodiscard]] std::uint32_t first() { return bench().srq_number(0); }
    [[nodiscard]] std::uint32_t second() { return bench().srq_number(1); }
    /// Of no SRQ of the domain.
    [[nodiscard]] std::uint32_t nobody() { return (first() | second()) ^ 0x80'0000U; }
    void post_first(std::uint64_t wr_id) {
        bench().post_srq_receive(0, wr_id, {memory().sge(0, kSrqReceive)});
    }
    void post_second(std::uint64_t wr_id) {
        bench().post_srq_receive(1, wr_id, {memory().sge(kSecondBuffer, kSrqReceive)});
    }
    void acknowledges(std::uint32_t psn, std::uint32_t msn) { sends(xrc(ack(psn, msn))); }
    /// With no receive in use: the NAK and ERR; a QP whose receives are an SRQ's says that it takes none any
    /// more (11.6.3.2).
    void refuses_for_good(std::uint32_t psn, std::uint8_t syndrome, AsyncEventType event) {
        sends(xrc(nak(psn, 0, syndrome)));
        state(QpState::kErr);
        raises({event, AsyncEventType::kQpLastWqeReached});
    }
};

CONFORM_CASE_IN(XrcTarget, EachMessageGoesToTheSrqItNames, "A14",
                "each SEND takes its receive from the SRQ that its XRCETH names") {
    connect_target();
    post_first(10);
    post_second(20);
    peer(xrc(send_only(2000, 8), second()));
    acknowledges(2000, 1);
    receives(ok(20).bytes(8).op(WcOpcode::kRecv));
    peer(xrc(send_only(2001, 16, 512), first()));
    acknowledges(2001, 2);
    receives(ok(10).bytes(16));
    holds_peer_data(kSecondBuffer, 8, 0);
    holds_peer_data(0, 16, 512);
}

CONFORM_CASE_IN(XrcTarget, MessageOfSeveralPackets, "A14",
                "a SEND of several packets fills one receive of the SRQ that all of them name") {
    connect_target();
    post_first(10);
    post_second(20);
    peer({xrc(send_first(2000, kXrcMtu), second()), xrc(send_middle(2001, kXrcMtu, kXrcMtu), second()),
          xrc(send_last(2002, 100, kThirdPacket), second())});
    acknowledges(2002, 1);
    receives(ok(20).bytes(2 * kXrcMtu + 100));
    holds_peer_data(kSecondBuffer, 2 * kXrcMtu + 100, 0);
    holds_own_data(0, kSrqReceive);
}

CONFORM_CASE_IN(XrcTarget, AMessageKeepsToOneSrq, "A14",
                "a packet of another SRQ in the middle of a message: NAK invalid request") {
    connect_target();
    post_first(10);
    post_second(20);
    peer({unasked(xrc(send_first(2000, kXrcMtu), first())), xrc(send_last(2001, 8, kXrcMtu), second())});
    sends(xrc(nak(2001, 0, kInvalid)));
    receives(failed(10, WcStatus::kRemInvReqErr));  // it tells, in place of an event
    state(QpState::kErr);
    raises({AsyncEventType::kQpLastWqeReached});
}

CONFORM_CASE_IN(XrcTarget, UnknownSrq, "A14",
                "SEND, WRITE, READ and atomic for an SRQ that the domain has not: NAK invalid request") {
    for (const std::uint8_t operation :
         {wire::kSendOnly, wire::kWriteOnly, wire::kReadRequest, wire::kFetchAdd}) {
        given("operation", unsigned{operation});
        connect_target();
        post_first(10);
        peer(xrc(packet(operation, 2000, 8, kTargetData), nobody()));
        refuses_for_good(2000, kInvalid, AsyncEventType::kQpReqErr);
        receives({});
        holds_own_data(kTargetData, 8);
    }
}

CONFORM_CASE_IN(XrcTarget, AnEmptySrqIsNotReady, "9.7.5.2.8 (A14)",
                "an SRQ without a receive: RNR NAK, whatever the others have; repeated, the SEND arrives") {
    constexpr std::uint8_t kTimer = 12;
    connect({.mtu = kXrcMtu, .min_rnr_timer = kTimer}, {.type = QpType::kXrcRecv});
    post_second(20);
    peer(xrc(send_only(2000, 8), first()));
    sends(xrc(rnr_nak(2000, 0, kTimer)));
    receives({});
    post_first(10);
    peer(xrc(send_only(2000, 8), first()));
    acknowledges(2000, 1);
    receives(ok(10).bytes(8));
    peer(xrc(send_only(2001, 8), second()));
    acknowledges(2001, 2);
    receives(ok(20).bytes(8));
}

CONFORM_CASE_IN(XrcTarget, WriteNeedsNoReceive, "A14 (9.7.4)",
                "a WRITE of several packets is executed while all SRQs are empty") {
    connect_target();
    peer({xrc(write_first(2000, 2 * kXrcMtu + 8, kXrcMtu, kTargetData), first()),
          xrc(write_middle(2001, kXrcMtu, kTargetData + kXrcMtu), first()),
          xrc(write_last(2002, 8, kTargetData + kThirdPacket), first())});
    acknowledges(2002, 1);
    holds_peer_data(kTargetData, 2 * kXrcMtu + 8, kTargetData);
}

CONFORM_CASE_IN(XrcTarget, WriteWithImmediate, "A14",
                "a WRITE with Immediate takes a receive of the SRQ that it names") {
    constexpr std::uint32_t kImmediate = 0x1234'5678;
    connect_target();
    post_first(10);
    post_second(20);
    peer(xrc(packet(wire::kWriteOnlyImm, 2000, 64, kTargetData).imm(kImmediate), second()));
    acknowledges(2000, 1);
    receives(ok(20).bytes(64).with_imm(kImmediate));
    holds_peer_data(kTargetData, 64, kTargetData);
    holds_own_data(kSecondBuffer, kSrqReceive);
}

CONFORM_CASE_IN(XrcTarget, Read, "A14", "a READ is answered with XRC's opcodes, and without an XRCETH") {
    connect_target();
    peer(xrc(read_request(2000, 2 * kXrcMtu + 8, kTargetData), second()));
    sends({xrc(response_first(2000, 1, kXrcMtu, kTargetData)),
           xrc(response_middle(2001, kXrcMtu, kTargetData + kXrcMtu)),
           xrc(response_last(2002, 1, 8, kTargetData + kThirdPacket))});
}

CONFORM_CASE_IN(XrcTarget, Atomics, "A14", "atomics are executed once, and replayed when they come again") {
    connect_target();
    set_word(kTargetData, 7);
    peer(xrc(fetch_add_request(2000, 5, kTargetData), first()));
    sends(xrc(atomic_ack(2000, 1, 7)));
    peer(xrc(compare_swap_request(2001, 12, 100, kTargetData), second()));
    sends(xrc(atomic_ack(2001, 2, 12)));
    holds_word(kTargetData, 100);
    peer(xrc(fetch_add_request(2000, 5, kTargetData), first()));
    sends(xrc(atomic_ack(2000, 1, 7).any_msn()));
    holds_word(kTargetData, 100);
}

CONFORM_CASE_IN(XrcTarget, WrongKey, "9.7.4.1.3 (A14)",
                "a WRITE with an unknown R_Key: NAK remote access error") {
    connect_target();
    peer(xrc(write_only(2000, 8, kTargetData).rkey(memory().key() ^ 0x5500U), first()));
    refuses_for_good(2000, kAccess, AsyncEventType::kQpAccessErr);
    holds_own_data(kTargetData, 8);
}

CONFORM_CASE_IN(XrcTarget, Gap, "9.7.5.2 (A14)",
                "a packet behind a gap: one NAK with XRC's opcode; from the gap on everything is executed") {
    connect_target();
    post_first(10);
    peer(unasked(xrc(write_only(2001, 8, kTargetData), first())));
    sends(xrc(sequence_nak(2000, 0)));
    peer({unasked(xrc(send_only(2000, 8), first())), xrc(write_only(2001, 8, kTargetData), first())});
    acknowledges(2001, 2);
    receives(ok(10).bytes(8));
    holds_peer_data(kTargetData, 8, kTargetData);
}

CONFORM_CASE_IN(XrcTarget, DuplicateSend, "9.7.5.1.5 (A14)",
                "a SEND that comes again is acknowledged again, and takes no second receive") {
    connect_target();
    post_first(10);
    peer(xrc(send_only(2000, 8), first()));
    acknowledges(2000, 1);
    receives(ok(10).bytes(8));
    post_first(11);
    peer(xrc(send_only(2000, 8), first()));
    acknowledges(2000, 1);
    receives({});
    peer(xrc(send_only(2001, 16), first()));
    acknowledges(2001, 2);
    receives(ok(11).bytes(16));
}

CONFORM_CASE_IN(XrcTarget, WhatIsNotForATarget, "A14 (9.6.1.2)",
                "requests of RC and UC, and XRC responses: dropped without an answer; PSN and QP stay") {
    connect_target();
    post_first(10);
    peer(send_only(2000, 8));
    sends_nothing();
    peer(write_only(2000, 8, kTargetData).service(wire::kServiceUc));
    sends_nothing();
    peer(xrc(ack(1000, 1)));
    sends_nothing();
    receives({});
    holds_own_data(kTargetData, 8);
    peer(xrc(send_only(2000, 8), first()));
    acknowledges(2000, 1);
    receives(ok(10).bytes(8));
}

}  // namespace
}  // namespace urnic::conform
