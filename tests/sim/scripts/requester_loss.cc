// The requester when requests and acknowledgements get lost (IBA 9.7.5.1.1, 9.7.6.1).
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

RC_SCRIPT(RequesterLoss, FirstOfSend, "9.7.5.1.1",
          "NAK 0x60 for the First of a SEND: sent again from there") {
    connect({.mtu = 256});
    post(send(1, 768));
    sends({send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    peer(sequence_nak(1000, 0));
    resends({send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    completes_nothing();
    peer(ack(1002, 1));
    completes(ok(1));
}

RC_SCRIPT(RequesterLoss, MiddleOfSend, "9.7.5.1.1",
          "NAK 0x60 for a Middle of a SEND: sent again from there") {
    connect({.mtu = 256});
    post(send(1, 768));
    sends({send_first(1000, 256), send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    peer(sequence_nak(1001, 0));
    resends({send_middle(1001, 256, 256), send_last(1002, 256, 512)});
    peer(ack(1002, 1));
    completes(ok(1));
}

}  // namespace
}  // namespace urnic::sim
