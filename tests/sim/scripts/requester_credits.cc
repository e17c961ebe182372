// End-to-end flow control as the requester obeys it (IBA 9.7.7.2).
#include <algorithm>

#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

class RequesterCredits : public RcScript {
  protected:
    // so many WRITEs go and are acknowledged, past the script's bookkeeping: they would take minutes.
    void exchange(std::uint32_t messages, std::uint32_t first_psn) {
        constexpr std::uint32_t kBurst = 64;
        discard_frames(true);
        const SendRequest request = unsignaled(write(0, 0));
        wire::PacketView view;
        view.header = ack(first_psn - 1, 0).header();
        view.header.dest_qp = kQp;
        view.src_gid = peer_gid();
        for (std::uint32_t done = 0; done < messages;) {
            const std::uint32_t burst = std::min(kBurst, messages - done);
            for (std::uint32_t i = 0; i < burst; ++i) {
                host().post_send(request);
            }
            host().progress();
            done += burst;
            view.header.psn = view.header.psn + burst;
            view.header.aeth.msn = done & Psn::kMask;
            host().deliver(view);
        }
        discard_frames(false);
    }
};

RC_SCRIPT_IN(RequesterCredits, MsnWrap, "9.7.7.2",
             "after 2^24 - 3 messages the limit and the messages' numbers wrap together") {
    connect({.timeout = kTimeout});
    exchange(0xff'fffd, 1000);
    post(write(1, 8));
    const Psn psn = Psn(1000) + 0xff'fffdU;
    sends(write_only(psn.value(), 8));
    peer(ack(psn.value(), 0xff'fffe).credits(4));  // 0xffffff, 0, 1 and 2
    completes(ok(1));
    for (std::uint32_t i = 1; i <= 7; ++i) {
        post(send(1 + i, 8));
    }
    for (std::uint32_t i = 1; i <= 5; ++i) {
        sends(send_only((psn + i).value(), 8));
    }
    silence(kLeast / 2);
    peer(ack((psn + 5).value(), 3).credits(2));
    completes({ok(2), ok(3), ok(4), ok(5), ok(6)});
    sends({send_only((psn + 6).value(), 8), send_only((psn + 7).value(), 8)});
}

}  // namespace
}  // namespace urnic::sim
