// NAKs that end a connection, and errors of the requester's own (IBA 9.9.2).
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

class RequesterErrors : public RcScript {
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

RC_SCRIPT_IN(RequesterErrors, KeyRevokedBeforeTheResponse, "10.6.3",
             "a READ whose buffer was deregistered meanwhile fails with LOC_PROT_ERR and writes nothing") {
    connect();
    post({read(1, 8), write(2, 8, 64)});
    sends({read_request(1000, 8), write_only(1001, 8, 64)});
    memory().revoke();
    peer(response_only(1000, 1, 8));
    completes({failed(1, WcStatus::kLocProtErr), flushed(2)});
    holds_own_data(0, 8);
    state(QpState::kErr);
}

RC_SCRIPT_IN(
    RequesterErrors, KeyRevokedBeforeTheRepetition, "10.6.3",
    "a WRITE that has to be repeated when its buffer is no longer registered fails with LOC_PROT_ERR") {
    connect();
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    memory().revoke();
    peer(sequence_nak(1001, 1));
    completes({ok(1), failed(2, WcStatus::kLocProtErr)});
    sends_nothing();
    state(QpState::kErr);
}

}  // namespace
}  // namespace urnic::sim
