// The responder with requests that come in order: what it carries out, what it answers, what its application
// sees (IBA 9.4, 9.7.5.1, 9.7.7).
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

constexpr std::uint32_t kImm = 0x1234'5678;

RC_SCRIPT(ResponderExecution, SendWithImmediate, "9.4.1",
          "SEND Last and Only with Immediate hand the four bytes over unchanged") {
    connect({.mtu = 256});
    post_receive(100, 512);
    post_receive(101, 512, 512);
    post_receive(102, 512, 1024);
    peer({send_first(2000, 256), packet(wire::kSendLastImm, 2001, 8, 256).imm(kImm),
          packet(wire::kSendOnlyImm, 2002, 8).imm(~kImm), send_only(2003, 8)});
    sends(acked(2003, 3));
    const auto received = host().poll_raw(true);
    ASSERT_EQ(received.size(), 3U);
    const std::uint32_t lengths[] = {264, 8, 8};
    const std::uint32_t flags[] = {kWcWithImm, kWcWithImm, 0};
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(received[i]->byte_len, lengths[i]);
        EXPECT_EQ(received[i]->wc_flags, flags[i]);
        EXPECT_EQ(received[i]->opcode, static_cast<std::uint8_t>(WcOpcode::kRecv));
        EXPECT_EQ(received[i]->qp_num, kQp);
        EXPECT_EQ(received[i]->src_qp, kPeerQp);
    }
    EXPECT_EQ(received[0]->imm_or_rkey, kImm);
    EXPECT_EQ(received[1]->imm_or_rkey, ~kImm);
}

RC_SCRIPT(ResponderExecution, RequestsTakeEffectInOrder, "9.5",
          "WRITE, FetchAdd, READ and SEND of one burst: each sees what those before it did") {
    connect();
    post_receive(100, 8, 64);
    peer({unasked(write_only(2000, 8, 64)), fetch_add_request(2001, 1, 64), read_request(2002, 8, 64)});
    const std::uint64_t after = word(64);
    sends({atomic_ack(2001, 3, after - 1).any_credits(),
           response_only(2002, 3, 8, 64).any_credits().bytes({memory().data() + 64, 8})});
    peer(send_only(2003, 8, 128));
    sends(acked(2003, 4));
    receives(ok(100).bytes(8));
    holds_peer_data(64, 8, 128);
}

// --- Zero length ------------------------------------------------------------------------------------------

// --- Events -----------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderExecution, SolicitedEvent, "11.4.2.2",
          "SE in the last packet makes the receive's completion a solicited one") {
    connect({.mtu = 256});
    for (std::uint64_t i = 0; i < 4; ++i) {
        post_receive(100 + i, 512);
    }
    peer(send_only(2000, 8));
    EXPECT_EQ(host().solicited, 0U);
    peer(send_only(2001, 8).solicited());
    EXPECT_EQ(host().solicited, 1U);
    peer({send_first(2002, 256), send_last(2003, 8, 256).solicited()});
    EXPECT_EQ(host().solicited, 2U);
    peer(packet(wire::kWriteOnlyImm, 2004, 8).imm(kImm).solicited());
    EXPECT_EQ(host().solicited, 3U);
    peer(write_only(2005, 8).solicited());
    EXPECT_EQ(host().solicited, 3U);
    sends({acked(2000, 1, 3), acked(2001, 2, 2), acked(2003, 3, 1), acked(2004, 4), acked(2005, 5)});
    receives({ok(100), ok(101), ok(102), ok(103)});
}

}  // namespace
}  // namespace urnic::sim
