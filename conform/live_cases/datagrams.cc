// UC and UD: what is executed without an answer, and what is dropped without a word.
#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

QpOptions uc_qp() { return {.type = QpType::kUc}; }
constexpr std::uint32_t kDatagramMtu = 256;
constexpr std::uint32_t kGrh = 40;

ScriptPacket uc(ScriptPacket packet) { return packet.service(wire::kServiceUc).ackreq(false); }

}  // namespace

class LiveUd : public LiveScript {
  protected:
    void connect_ud() { connect({.qkey = kQkey}, {.type = QpType::kUd}); }
    ScriptPacket datagram(std::uint32_t psn, std::uint32_t length) {
        return send_only(psn, length)
            .service(wire::kServiceUd)
            .ackreq(false)
            .deth(kQkey, bench().peer_qp_num());
    }
};

LIVE_CASE(LiveUc, ExecutesWithoutAnAnswer, "9.8.2.2", "UC requests are executed, and nothing is sent back") {
    connect({.mtu = kDatagramMtu}, uc_qp());
    post_receive(1, 512);
    peer({uc(write_first(2000, 3 * kDatagramMtu, kDatagramMtu, 1024)),
          uc(write_middle(2001, kDatagramMtu, 1280)), uc(write_last(2002, kDatagramMtu, 1536)),
          uc(send_only(2003, 100, 4096))});
    sends_nothing();
    receives(ok(1).bytes(100));
    holds_peer_data(1024, std::size_t{3} * kDatagramMtu, 1024);
    holds_peer_data(0, 100, 4096);
}

LIVE_CASE(LiveUc, AGapDropsTheMessage, "9.8.2.2",
          "a UC message of which a packet is missing is dropped, without a NAK; the next one is taken") {
    connect({.mtu = kDatagramMtu}, uc_qp());
    post_receive(1, 1024);
    peer({uc(send_first(2000, kDatagramMtu)), uc(send_last(2002, kDatagramMtu, 512))});
    sends_nothing();
    receives({});
    peer(uc(send_only(2003, 64, 4096)));
    receives(ok(1).bytes(64));
    sends_nothing();
    holds_peer_data(0, 64, 4096);
}

LIVE_CASE(LiveUc, AWrongKeyIsDropped, "9.8.2.2.2 (9.9.3)",
          "a UC WRITE with an unknown R_Key changes nothing and is not answered") {
    connect({.mtu = kDatagramMtu}, uc_qp());
    peer(uc(write_only(2000, 64).rkey(memory().key() ^ 0x5500U)));
    sends_nothing();
    holds_own_data(0, 64);
    leave_the_rest();
}

LIVE_CASE(LiveUc, RequestsAndCompletions, "9.8.2.1",
          "UC requests have RC's packets with UC's opcodes, and complete once they are sent") {
    connect({.mtu = kDatagramMtu}, uc_qp());
    post({send(1, 3 * kDatagramMtu - 56), write(2, 64, 1024)});
    sends({uc(send_first(1000, kDatagramMtu)).any_ackreq(),
           uc(send_middle(1001, kDatagramMtu, 256)).any_ackreq(),
           uc(send_last(1002, kDatagramMtu - 56, 512)).any_ackreq(),
           uc(write_only(1003, 64, 1024)).any_ackreq()});
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(LiveUd, Received, "9.8.3.2 (11.4.2.1)",
                "a UD datagram is received behind 40 bytes for the GRH, and nothing is sent back") {
    connect_ud();
    post_receive(1, 256);
    peer(datagram(7, 100));
    receives(ok(1).bytes(kGrh + 100));
    holds_peer_data(kGrh, 100, 0);
    sends_nothing();
}

CONFORM_CASE_IN(LiveUd, AnyPsn, "9.8.3.2",
                "PSNs of UD datagrams mean nothing: repeated, backwards, far ahead") {
    connect_ud();
    for (std::uint64_t i = 0; i < 4; ++i) {
        post_receive(i, 256);
    }
    peer({datagram(7, 8), datagram(7, 8), datagram(3, 8), datagram(0x80'0000, 8)});
    receives({ok(0), ok(1), ok(2), ok(3)});
    sends_nothing();
}

CONFORM_CASE_IN(LiveUd, WrongQkey, "10.2.5 (9.6.1.5)",
                "a datagram with another Q_Key is dropped without a word") {
    connect_ud();
    post_receive(1, 256);
    peer(datagram(0, 100).deth(kQkey ^ 1U, bench().peer_qp_num()));
    sends_nothing();
    receives({});
    peer(datagram(1, 16));
    receives(ok(1).bytes(kGrh + 16));
}

CONFORM_CASE_IN(LiveUd, WithoutAReceive, "9.8.3.2",
                "a datagram for which no receive is posted is dropped; the QP continues") {
    connect_ud();
    peer(datagram(0, 100));
    sends_nothing();
    post_receive(1, 256);
    peer(datagram(1, 16));
    receives(ok(1).bytes(kGrh + 16));
    state(QpState::kRts);
}

CONFORM_CASE_IN(LiveUd, RequestFields, "9.6.1.5 (9.8.3.1)",
                "a UD request has the Q_Key of the work request and the sender's QP number") {
    connect_ud();
    SendRequest request = send(1, 100);
    request.address_handle = live().add_address_handle();
    request.remote_qp_num = bench().peer_qp_num();
    request.remote_qkey = kQkey + 5;
    post(request);
    sends(send_only(1000, 100)
              .service(wire::kServiceUd)
              .ackreq(false)
              .any_ackreq()
              .deth(kQkey + 5, bench().qp_num()));
    completes(ok(1));
}

CONFORM_CASE_IN(LiveUd, ControlledQkey, "10.2.5",
                "a work request whose Q_Key has its highest bit set sends the QP's own Q_Key") {
    connect_ud();
    SendRequest request = send(1, 8);
    request.address_handle = live().add_address_handle();
    request.remote_qp_num = bench().peer_qp_num();
    request.remote_qkey = 0x8000'0001;
    post(request);
    sends(send_only(1000, 8)
              .service(wire::kServiceUd)
              .ackreq(false)
              .any_ackreq()
              .deth(kQkey, bench().qp_num()));
    completes(ok(1));
}

}  // namespace urnic::conform
