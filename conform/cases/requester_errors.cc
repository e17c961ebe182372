// NAKs that end a connection, and errors of the requester's own (IBA 9.9.2).
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

class RequesterErrors : public Script {
  protected:
    // A NAK of the second of three: the first completed, the third never will.
    void fails_with(std::uint8_t syndrome, WcStatus status) {
        connect();
        post_receive(100, 64);
        post({write(1, 8), write(2, 8), write(3, 8)});
        sends({write_only(1000, 8), write_only(1001, 8), write_only(1002, 8)});
        peer(nak(1001, 1, syndrome));
        completes({ok(1), failed(2, status), flushed(3)});
        receives(flushed(100));
        state(QpState::kErr);
        peer({nak(1001, 1, syndrome), ack(1002, 3)});
        silence(1'000'000'000'000);
    }
};

CONFORM_CASE_IN(RequesterErrors, InvalidRequest, "9.9.2", "NAK 0x61: REM_INV_REQ_ERR, flush, ERR, silence") {
    fails_with(wire::kNakInvalidRequest, WcStatus::kRemInvReqErr);
}

CONFORM_CASE_IN(RequesterErrors, RemoteAccess, "9.9.2", "NAK 0x62: REM_ACCESS_ERR, flush, ERR, silence") {
    fails_with(wire::kNakRemoteAccessError, WcStatus::kRemAccessErr);
    counts(&Counters::req_remote_access_errors, 1);
}

CONFORM_CASE_IN(RequesterErrors, RemoteOperational, "9.9.2", "NAK 0x63: REM_OP_ERR, flush, ERR, silence") {
    fails_with(wire::kNakRemoteOperationalError, WcStatus::kRemOpErr);
}

CONFORM_CASE_IN(RequesterErrors, InvalidRdRequest, "9.9.2", "NAK 0x64 has no meaning on RC: BAD_RESP_ERR") {
    fails_with(wire::kNakInvalidRdRequest, WcStatus::kBadRespErr);
}

CONFORM_CASE_IN(RequesterErrors, ReservedNakCodes, "9.7.5.2",
                "NAK codes 5 to 31 are reserved: BAD_RESP_ERR") {
    for (std::uint8_t code = 5; code < 32; ++code) {
        given("code", code);
        fails_with(static_cast<std::uint8_t>(wire::kSyndromeNak | code), WcStatus::kBadRespErr);
    }
}

CONFORM_CASE_IN(RequesterErrors, ReservedSyndromes, "9.7.5.2",
                "syndromes 0x40 to 0x5f are reserved: BAD_RESP_ERR") {
    for (std::uint8_t syndrome = 0x40; syndrome < 0x60; ++syndrome) {
        given("syndrome", syndrome);
        fails_with(syndrome, WcStatus::kBadRespErr);
    }
}

CONFORM_CASE_IN(RequesterErrors, InTheMiddleOfAMessage, "9.9.2", "a NAK of a Middle fails its message") {
    connect({.mtu = 256});
    post({send(1, 768), write(2, 8)});
    sends(
        {send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512), write_only(1003, 8)});
    peer(nak(1001, 0, wire::kNakInvalidRequest));
    completes({failed(1, WcStatus::kRemInvReqErr), flushed(2)});
    state(QpState::kErr);
}

CONFORM_CASE_IN(RequesterErrors, Read, "9.9.2", "a NAK of a READ request fails the READ and writes nothing") {
    connect();
    post({read(1, 8), write(2, 8, 64)});
    sends({read_request(1000, 8), write_only(1001, 8, 64)});
    peer(nak(1000, 0, wire::kNakRemoteAccessError));
    completes({failed(1, WcStatus::kRemAccessErr), flushed(2)});
    holds_own_data(0, 8);
}

CONFORM_CASE_IN(RequesterErrors, ReadHalfAnswered, "9.9.2", "a NAK instead of a Middle fails the READ") {
    connect({.mtu = 256});
    post(read(1, 768));
    sends(read_request(1000, 768));
    peer({response_first(1000, 1, 256), nak(1001, 1, wire::kNakRemoteOperationalError)});
    completes(failed(1, WcStatus::kRemOpErr));
    state(QpState::kErr);
    holds_own_data(256, 512);
}

CONFORM_CASE_IN(RequesterErrors, Atomic, "9.9.2", "a NAK of an atomic fails it and writes nothing") {
    connect();
    post(fetch_add(1, 1));
    sends(fetch_add_request(1000, 1));
    peer(nak(1000, 0, wire::kNakInvalidRequest));
    completes(failed(1, WcStatus::kRemInvReqErr));
    holds_own_data(0, 8);
}

CONFORM_CASE_IN(RequesterErrors, UnsignaledFailsAloud, "10.8.6",
                "an unsignaled request that fails completes with its error") {
    connect();
    post({unsignaled(write(1, 8)), unsignaled(write(2, 8)), unsignaled(write(3, 8))});
    sends({write_only(1000, 8), write_only(1001, 8), write_only(1002, 8)});
    peer(nak(1001, 1, wire::kNakRemoteAccessError));
    completes({failed(2, WcStatus::kRemAccessErr), flushed(3)});
}

CONFORM_CASE_IN(RequesterErrors, UnsignaledSucceedsSilently, "10.8.6",
                "an unsignaled request that succeeds has no completion") {
    connect();
    post({unsignaled(write(1, 8)), unsignaled(read(2, 8, 64)), write(3, 8), unsignaled(send(4, 8))});
    sends({write_only(1000, 8), read_request(1001, 8, 64), write_only(1002, 8), send_only(1003, 8)});
    peer({response_only(1001, 2, 8, 64), ack(1003, 4)});
    completes(ok(3).wqe(2));
    holds_peer_data(64, 8, 64);
}

CONFORM_CASE_IN(RequesterErrors, LocalProtection, "9.9.2",
                "a wrong L_Key fails after all before it completed; nothing of it or behind it goes out") {
    connect();
    SendRequest wrong = write(2, 8);
    wrong.sge[0].lkey ^= 0x100;
    post({write(1, 8), wrong, write(3, 8)});
    sends(write_only(1000, 8));
    completes_nothing();
    peer(ack(1000, 1));
    completes({ok(1), failed(2, WcStatus::kLocProtErr), flushed(3)});
    state(QpState::kErr);
}

CONFORM_CASE_IN(RequesterErrors, LocalErrorBehindARetry, "9.9.2",
                "a local error waits for the repetition of what lies before it") {
    connect();
    SendRequest wrong = write(2, 8);
    wrong.sge[0].lkey ^= 0x100;
    post({write(1, 8), wrong});
    sends(write_only(1000, 8));
    peer(sequence_nak(1000, 0));
    sends(write_only(1000, 8));
    completes_nothing();
    peer(ack(1000, 1));
    completes({ok(1), failed(2, WcStatus::kLocProtErr)});
    state(QpState::kErr);
}

CONFORM_CASE_IN(RequesterErrors, AllSignaled, "10.8.6",
                "a queue whose requests are all signaled completes each") {
    connect({}, {.sq_sig_all = true});
    post({unsignaled(write(1, 8)), send(2, 8), unsignaled(send(3, 8))});
    sends({write_only(1000, 8), send_only(1001, 8), send_only(1002, 8)});
    peer(ack(1002, 3));
    completes({ok(1), ok(2), ok(3)});
}

}  // namespace
}  // namespace urnic::conform
