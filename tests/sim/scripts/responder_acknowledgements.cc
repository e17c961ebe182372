// When the responder acknowledges and what its AETHs say (IBA 9.7.5.1, 9.7.7).
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

RC_SCRIPT(ResponderAck, BehindAReadResponse, "9.7.5.1.1",
          "the ACK of a WRITE behind a READ waits for the READ's last response") {
    connect({.mtu = 256});
    host().packets_per_progress = 2;
    peer({read_request(2000, 1000), write_only(2004, 8, 4096)});
    sends({response_first(2000, 2, 256).credits(0), response_middle(2001, 256, 256),
           response_middle(2002, 256, 512), response_last(2003, 2, 232, 768).credits(0), acked(2004, 2)});
}

RC_SCRIPT(ResponderAck, MsnWraps, "9.7.7.1", "behind message 2^24 - 1 the MSN is 0") {
    connect();
    wire::PacketView view;
    view.header = write_only(2000, 0).header();
    view.header.ack_req = false;
    view.src_gid = peer_gid();
    constexpr std::uint32_t kMessages = (1U << 24U) - 2;
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        view.header.psn = Psn(2000 + i);
        host().deliver(view);
    }
    // Behind it the PSN before the first one is expected, which nothing may take for "none".
    peer(write_only(1998, 0));
    sends(acked(1998, 0xff'ffff));
    peer(write_only(1999, 0));
    sends(acked(1999, 0));
    peer(write_only(2000, 0));
    sends(acked(2000, 1));
}

}  // namespace
}  // namespace urnic::sim
