// The QP that a listener makes, as far as packets show it: WRITEs and READs of no byte, which need no R_Key,
// and what is wrong about a request (IBA 9.6, 9.7).
#include "conform/cm/cm_script.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kNobodysKey = 0xdead'beef;
constexpr std::size_t kBth = wire::kIpv4Bytes + wire::kUdpBytes;
constexpr std::size_t kRethBytes = 16;
constexpr std::size_t kHeaders = wire::kBthBytes + kRethBytes;

// --- Good requests ----------------------------------------------------------------------------------------

CM_CASE(CmTransport, WriteOfNothing, "9.7.4.1.5 (C9-88)",
        "a WRITE of no byte needs no R_Key: it is acknowledged, and counted by the MSN") {
    connect();
    for (std::uint32_t i = 0; i < 4; ++i) {
        is_alive(i, i + 1);
    }
}

CM_CASE(CmTransport, ReadOfNothing, "9.7.4.1.5 (C9-88)",
        "a READ of no byte needs no R_Key: one Only response without a payload") {
    connect();
    if (cm().rep().responder_resources == 0) {
        throw NotApplicable("the listener's REP takes no READs: its responder resources are 0");
    }
    peer(read_of_nothing(0));
    sends(response_only(psn(), 1, 0).any_credits());
    is_alive(1, 2);
}

CM_CASE(CmTransport, EachPathMtu, "12.7.26",
        "each path MTU that the device's REP takes makes a QP that answers") {
    for (const std::uint32_t mtu : {256U, 512U, 1024U}) {
        given("path MTU", mtu);
        connect({.mtu = mtu});
        is_alive(0, 1);
    }
}

CM_CASE(CmTransport, MigReq, "9.2",
        "a request with MigReq 0 is taken; answers of a QP that does not migrate carry 1") {
    connect();
    peer(write_of_nothing(0).mig_req(false));
    sends(ack(psn(), 1).any_credits().mig_req(true));
    is_alive(1, 2);
}

CM_CASE(CmTransport, ReservedBits, "9.2", "reserved bits of the BTH are ignored at the receiver") {
    connect();
    constexpr std::size_t kBesideFecn = 4;
    constexpr std::size_t kBesideAckReq = 8;
    peer(write_of_nothing(0).flips(kBesideFecn, 0x3f));
    sends(ack(psn(), 1).any_credits());
    peer(write_of_nothing(1).flips(kBesideAckReq, 0x7f));
    sends(ack(psn(1), 2).any_credits());
}

CM_CASE(CmTransport, WhatRoutersMayChange, "7.8.1 (A17.3.3)",
        "TTL, DSCP, ECN, FECN and BECN that change on the way do not spoil the ICRC") {
    connect();
    peer(write_of_nothing(0).routed());
    sends(ack(psn(), 1).any_credits());
    constexpr std::size_t kCongestion = kBth + 4;
    peer(write_of_nothing(1).flips_on_the_way(kCongestion, 0xc0));
    sends(ack(psn(1), 2).any_credits());
}

// --- PSNs -------------------------------------------------------------------------------------------------

CM_CASE(CmTransport, Gap, "9.7.5.1.2",
        "behind a gap: one NAK 0x60 with the PSN that is missing, then silence until it comes") {
    connect();
    is_alive(0, 1);
    peer(unasked(write_of_nothing(2)));
    sends(sequence_nak(psn(1), 1));
    peer({unasked(write_of_nothing(3)), unasked(write_of_nothing(4))});
    silence(kSecond);
    peer({unasked(write_of_nothing(1)), unasked(write_of_nothing(2)), unasked(write_of_nothing(3)),
          write_of_nothing(4)});
    sends(ack(psn(4), 5).any_credits());
}

CM_CASE(CmTransport, DuplicateWrite, "9.7.5.1.5 (C9-105)",
        "a WRITE that comes twice is acknowledged twice and counted once") {
    connect();
    is_alive(0, 1);
    is_alive(0, 1);
    is_alive(1, 2);
    // The newest PSN that was executed, and the newest MSN.
    peer(write_of_nothing(0));
    sends(ack(psn(1), 2).any_credits());
}

CM_CASE(CmTransport, DuplicateRead, "9.7.5.1.5 (C9-106)", "a READ that comes twice is answered twice") {
    connect();
    if (cm().rep().responder_resources == 0) {
        throw NotApplicable("the listener's REP takes no READs: its responder resources are 0");
    }
    for (int i = 0; i < 2; ++i) {
        peer(read_of_nothing(0));
        sends(response_only(psn(), 1, 0).any_credits());
    }
}

CM_CASE(CmTransport, GhostAcknowledgements, "9.7.7.3",
        "ACKs, NAKs and READ responses to a QP that has asked for nothing draw no answer and break nothing") {
    connect();
    peer({ack(1000, 1), ack(0x7f'ffff, 1), sequence_nak(1001, 0), rnr_nak(1000, 0, 12)});
    silence(kSecond);
    is_alive(0, 1);
}

// --- Dropped without a word -------------------------------------------------------------------------------

CM_CASE(CmTransport, EachBitThatTheIcrcCovers, "7.8.1 (A17.3.3)",
        "a packet of which one bit of BTH, RETH or ICRC changed on the way is dropped without an answer") {
    connect();
    is_alive(0, 1);
    for (std::size_t at = 0; at < kHeaders + wire::kIcrcBytes; ++at) {
        if (at == wire::kBthResv8a) {
            continue;  // FECN and BECN may change on the way
        }
        given("byte", at);
        ScriptPackets burst;
        for (unsigned bit = 0; bit < 8; ++bit) {
            burst.push_back(
                write_of_nothing(1).flips_on_the_way(kBth + at, static_cast<std::uint8_t>(1U << bit)));
        }
        peer(burst);
        sends_nothing();
    }
    is_alive(1, 2);
}

CM_CASE(CmTransport, WrongPkey, "9.6.1.1", "another P_Key: dropped without an answer") {
    connect();
    is_alive(0, 1);
    for (const std::uint16_t pkey : {0x8001, 0x7ffe, 0x0000, 0xfffe}) {
        peer(write_of_nothing(1).pkey(pkey));
    }
    silence(kSecond);
    is_alive(1, 2);
}

CM_CASE(CmTransport, WrongTver, "9.6.1.1", "TVer other than 0: dropped without an answer") {
    connect();
    is_alive(0, 1);
    for (std::uint8_t tver = 1; tver < 16; ++tver) {
        peer(write_of_nothing(1).tver(tver));
    }
    silence(kSecond);
    is_alive(1, 2);
}

CM_CASE(CmTransport, FromAnotherAddress, "9.6.1.2 (A17)",
        "right QP and PSN from another GID: dropped without an answer") {
    connect();
    is_alive(0, 1);
    wire::Gid other = peer_gid();
    other[15] ^= 1U;
    peer({write_of_nothing(1).source(other), write_of_nothing(0).source(other)});
    silence(kSecond);
    is_alive(1, 2);
}

CM_CASE(CmTransport, OtherServices, "9.6.1.1",
        "opcodes of UC, RD, UD, XRC, CNP and manufacturers at an RC QP: dropped without an answer") {
    connect();
    is_alive(0, 1);
    for (const std::uint8_t service : {0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0}) {
        for (const std::uint8_t operation : {wire::kSendOnly, wire::kWriteOnly, wire::kSendMiddle}) {
            // 64 bytes behind the BTH: room for whatever headers these opcodes have.
            peer(packet(wire::kSendOnly, psn(1), 64)
                     .opcode_lie(static_cast<std::uint8_t>(service | operation)));
        }
    }
    silence(kSecond);
    is_alive(1, 2);
}

// --- Refused, and the end of the QP -----------------------------------------------------------------------

CM_CASE(CmTransport, UnknownKeyOfAWrite, "9.7.4.1.5",
        "a WRITE by an R_Key that nobody has: NAK remote access error, and the QP answers nothing more") {
    connect();
    is_alive(0, 1);
    peer(write_only(psn(1), 8).rkey(kNobodysKey));
    sends(nak(psn(1), 1, kAccess));
    is_in_error(2);
}

CM_CASE(CmTransport, UnknownKeyOfARead, "9.7.4.1.5",
        "a READ by an R_Key that nobody has: NAK remote access error, and no response") {
    connect();
    if (cm().rep().responder_resources == 0) {
        throw NotApplicable("the listener's REP takes no READs: its responder resources are 0");
    }
    is_alive(0, 1);
    peer(read_request(psn(1), 4096).rkey(kNobodysKey));
    sends(nak(psn(1), 1, kAccess));
    is_in_error(2);
}

CM_CASE(CmTransport, MiddleAlone, "9.7.4.1.2",
        "SEND Middle and Last, WRITE Middle and Last without a First: NAK invalid request") {
    for (const std::uint8_t operation :
         {wire::kSendMiddle, wire::kSendLast, wire::kWriteMiddle, wire::kWriteLast}) {
        given("operation", unsigned{operation});
        connect({.mtu = 256});
        const bool is_last = operation == wire::kSendLast || operation == wire::kWriteLast;
        peer(packet(operation, psn(), is_last ? 8 : 256));
        sends(nak(psn(), 0, kInvalid));
        is_in_error(1);
    }
}

CM_CASE(CmTransport, ReservedOpcode, "9.7.4.1.3", "a reserved RC opcode: NAK invalid request") {
    connect();
    constexpr std::uint8_t kReserved = 0x1f;
    peer(packet(wire::kSendOnly, psn(), 64).opcode_lie(kReserved));
    sends(nak(psn(), 0, kInvalid));
    is_in_error(1);
}

CM_CASE(
    CmTransport, ReadOfMoreThanAllowed, "9.7.4.1.6",
    "a READ of more than 2^31 bytes: NAK invalid request, before its R_Key is looked at, or access error") {
    connect();
    if (cm().rep().responder_resources == 0) {
        throw NotApplicable("the listener's REP takes no READs: its responder resources are 0");
    }
    peer(read_request(psn(), 0).reth(0, kNobodysKey, 0x8000'0001U));
    const SeenFrame* seen = bench().next(now() + bench().tolerance().patience_ns);
    require(seen != nullptr, "expected a NAK\n  seen none");
    const std::uint8_t syndrome = frame_header(seen->bytes).aeth.syndrome;
    sends(nak(psn(), 0, syndrome == kAccess ? kAccess : kInvalid));
    is_in_error(1);
}

CM_CASE(CmTransport, WhatAnErrorLeadsTo, "12.9",
        "after a refused request the listener releases the connection, or leaves it to the peer") {
    connect();
    peer(write_only(psn(), 8).rkey(kNobodysKey));
    sends(nak(psn(), 0, kAccess));
    const TimeNs refused = now();
    constexpr TimeNs kWaitNs = 1'000'000'000;
    const std::uint32_t id = cm().req().local_comm_id;
    const std::optional<HeardMessage> heard = cm().hear(id, cm().real_now() + kWaitNs);
    if (heard) {
        const msg::Dreq end = kind_of<msg::Dreq>(*heard);
        require(end.local_comm_id == cm().rep().local_comm_id && end.remote_qpn_eecn == cm().req().local_qpn,
                "the DREQ does not name the connection and the tester's QP");
    }
    measured("DREQ after the NAK", heard ? duration_text(heard->time - refused) : "none within 1 s");
}

}  // namespace
}  // namespace urnic::conform
