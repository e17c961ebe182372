// The responder without a receive to put a message in (IBA 9.7.5.2.8), and with a receive that does not
// serve.
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

// --- Receives that do not serve ---------------------------------------------------------------------------

RC_SCRIPT(ResponderReceive, MayNotBeWritten, "9.7.4.1.7",
          "a receive whose L_Key forbids writing: NAK remote operational error, WC local protection error") {
    for (const int fault : {0, 1, 2, 3}) {
        connect();
        SimRegion& region = host().add_region(
            4096, {.access = fault == 0 ? std::uint32_t{kAccessRemoteRead} : std::uint32_t{kAllAccess},
                   .pd = fault == 1 ? 2U : 1U});
        abi::Sge sge = region.sge(0, 64);
        if (fault == 2) {
            region.revoke();
        } else if (fault == 3) {
            sge.addr += 4096 - 63;
        }
        host().post_recv(100, {sge});
        post_receive(101, 64);
        peer(send_only(2000, 64));
        sends(nak(2000, 0, wire::kNakRemoteOperationalError));
        state(QpState::kErr);
        receives({failed(100, WcStatus::kLocProtErr), flushed(101)});
    }
}

RC_SCRIPT(ResponderReceive, RevokedInTheMiddle, "9.7.4.1.7",
          "the key of a receive goes away inside a message: the next packet is refused") {
    connect({.mtu = 256});
    SimRegion& region = host().add_region(4096);
    host().post_recv(100, {region.sge(0, 1024)});
    peer(unasked(send_first(2000, 256)));
    region.revoke();
    peer(send_last(2001, 8, 256));
    sends(nak(2001, 0, wire::kNakRemoteOperationalError));
    state(QpState::kErr);
    receives(failed(100, WcStatus::kLocProtErr));
}

RC_SCRIPT(
    ResponderReceive, Malformed, "9.7.4.1.7",
    "a receive WQE that claims more entries than the queue has: NAK remote operational error, WC local QP "
    "operation error") {
    connect();
    post_receive(100, 64);
    post_receive(101, 64);
    host().recv_ring().slot(0).num_sge = 0xffff'ffff;
    peer(send_only(2000, 8));
    sends(nak(2000, 0, wire::kNakRemoteOperationalError));
    state(QpState::kErr);
    receives({failed(100, WcStatus::kLocQpOpErr), flushed(101)});
}

RC_SCRIPT(ResponderReceive, RewrittenInTheMiddle, "10.8.3.1",
          "a receive WQE is read once: what its application writes over it under way changes nothing") {
    connect({.mtu = 256});
    post_receive(100, 512);
    peer(unasked(send_first(2000, 256)));
    host().recv_ring().slot(0).num_sge = 0xffff'ffff;
    host().recv_ring().slot(0).seq.store(0);
    peer(send_last(2001, 256, 256));
    sends(acked(2001, 1));
    receives(ok(100).bytes(512));
    holds_peer_data(0, 512, 0);
}

}  // namespace
}  // namespace urnic::sim
