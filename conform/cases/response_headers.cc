// Responses whose headers say that they are not for this connection, or not valid (IBA 9.6.1): dropped
// without a trace.
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

class ResponseHeaders : public Script {
  protected:
    // One WRITE is outstanding; `response` would acknowledge it, or its opposite, and must not be heard.
    void drops(const ScriptPackets& responses) {
        if (responses_sent_++ == 0) {
            post({write(1, 8), read(2, 8, 64)});
            sends({write_only(1000, 8).any_ackreq().pkey(pkey_), read_request(1001, 8, 64).pkey(pkey_)});
        }
        peer(responses);
        completes_nothing();
        sends_nothing();
        state(QpState::kRts);
        holds_own_data(0, 128);
    }
    void still_works() {
        peer({ack(1000, 1).pkey(pkey_), response_only(1001, 2, 8, 64).pkey(pkey_)});
        completes({ok(1), ok(2)});
    }
    std::uint16_t pkey_ = 0xffff;

  private:
    int responses_sent_ = 0;
};

CONFORM_CASE_IN(ResponseHeaders, PkeyOfAnotherPartition, "9.6.1.1",
                "responses with another P_Key are dropped") {
    connect();
    drops({ack(1000, 1).pkey(0x1234), nak(1000, 0, wire::kNakInvalidRequest).pkey(0xfffe),
           response_only(1001, 2, 8, 64).pkey(0x7ffe)});
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, PkeyOfALimitedMember, "10.9.1.2",
                "a full member hears a limited one; two limited members do not hear each other") {
    connect();
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(ack(1000, 1).pkey(0x7fff));
    completes(ok(1));
    connect({}, {.pkeys = {0x7fff}});
    pkey_ = 0x7fff;
    drops(ack(1000, 1).pkey(0x7fff));
    peer({ack(1000, 1).pkey(0xffff), response_only(1001, 2, 8, 64).pkey(0xffff)});
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(ResponseHeaders, Tver, "9.6.1.1", "responses with a TVer other than 0 are dropped") {
    connect();
    for (std::uint8_t tver = 1; tver < 16; ++tver) {
        drops({ack(1000, 1).tver(tver), nak(1000, 0, wire::kNakInvalidRequest).tver(tver)});
    }
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, DestQp, "9.6.1.1",
                "responses to another QP are not this QP's, whatever their PSN") {
    connect();
    const std::uint32_t ours = bench().qp_num();
    for (const std::uint32_t qp_num :
         {(ours + 1) & Psn::kMask, (ours + 0x100) & Psn::kMask, (ours + 0x10000) & Psn::kMask, 0xff'ffffU}) {
        drops({ack(1000, 1).dest_qp(qp_num), nak(1000, 0, wire::kNakInvalidRequest).dest_qp(qp_num)});
    }
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, ReservedOpcodes, "9.2", "reserved opcodes of RC are no responses") {
    connect();
    for (const std::uint8_t opcode : {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1e, 0x1f}) {
        drops(ack(1000, 1).opcode_lie(opcode));
    }
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, OtherServices, "9.6.1.1",
                "Acknowledge of UC, RD, UD, XRC and unknown services is not for an RC QP") {
    connect();
    for (std::uint8_t service = 1; service < 8; ++service) {
        drops(ack(1000, 1).opcode_lie(static_cast<std::uint8_t>(service << 5U | wire::kAcknowledge)));
    }
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, Icrc, "7.8.1", "responses with a wrong ICRC are dropped") {
    connect();
    drops({ack(1000, 1).bad_icrc(), nak(1000, 0, wire::kNakInvalidRequest).bad_icrc()});
    drops(response_only(1001, 2, 8, 64).bad_icrc());
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, Source, "9.6.1.5",
                "responses from another address than the peer's are dropped") {
    connect();
    const wire::Gid stranger = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 77};
    drops({ack(1000, 1).source(stranger), nak(1000, 0, wire::kNakRemoteAccessError).source(stranger)});
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, PadCount, "9.6.1.1",
                "PadCnt of more bytes than there are, or in a packet without payload: dropped") {
    connect();
    drops({ack(1000, 1).pad_count_lie(1), ack(1000, 1).pad_count_lie(3),
           atomic_ack(1001, 2, 5).pad_count_lie(2), response_only(1001, 2, 0, 64).pad_count_lie(3)});
    still_works();
}

CONFORM_CASE_IN(ResponseHeaders, MigReq, "17.2.8",
                "without automatic path migration MigReq of a response is not looked at") {
    connect();
    post({write(1, 8), read(2, 8, 64)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    peer(ack(1000, 1).mig_req(false));
    completes(ok(1));
    peer(response_only(1001, 2, 8, 64).mig_req(false));
    completes(ok(2));
    raises({});
}

CONFORM_CASE_IN(ResponseHeaders, AckReqAndSolicited, "9.2",
                "AckReq and SE mean nothing in a response: none is answered") {
    connect();
    post({write(1, 8), read(2, 8, 64)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    peer({ack(1000, 1).ackreq().solicited(), response_only(1001, 2, 8, 64).ackreq().solicited()});
    completes({ok(1), ok(2)});
    silence(1'000'000'000);
}

}  // namespace
}  // namespace urnic::conform
