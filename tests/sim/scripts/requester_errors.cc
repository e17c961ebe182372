// Errors of the requester's own that come of keys which go meanwhile (IBA 10.6.3).
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

RC_SCRIPT(RequesterErrors, KeyRevokedBeforeTheResponse, "10.6.3",
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

RC_SCRIPT(RequesterErrors, KeyRevokedBeforeTheRepetition, "10.6.3",
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
