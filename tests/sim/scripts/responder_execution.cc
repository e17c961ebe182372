// The responder with requests that come in order: what it carries out, what it answers, what its application
// sees (IBA 9.4, 9.7.5.1, 9.7.7).
#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

constexpr std::uint32_t kImm = 0x1234'5678;

RC_SCRIPT(ResponderExecution, SendOnly, "9.4.1",
          "SEND Only fills a receive and is acknowledged: its PSN, MSN 1") {
    connect();
    post_receive(100, 64, 4096);
    peer(send_only(2000, 13));
    sends(acked(2000, 1));
    receives(ok(100).bytes(13).op(WcOpcode::kRecv));
    EXPECT_EQ(host().counters.rdma_recvs.value(), 1U);
    holds_peer_data(4096, 13, 0);
    holds_own_data(4096 + 13, 51);
}

RC_SCRIPT(ResponderExecution, SendOfManyPackets, "9.4.1",
          "SEND of four packets is one message: one completion, MSN 1") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer({send_first(2000, 256), send_middle(2001, 256, 256), send_middle(2002, 256, 512)});
    sends_nothing();
    receives({});
    peer(send_last(2003, 1, 768));
    sends(acked(2003, 1));
    receives(ok(100).bytes(769));
    holds_peer_data(0, 769, 0);
    holds_own_data(769, 255);
}

RC_SCRIPT(ResponderExecution, SendIsScattered, "9.4.1",
          "SEND fills the receive's segments in order, over packet borders") {
    connect({.mtu = 256});
    host().post_recv(100, {memory().sge(4096, 100), memory().sge(9000, 0), memory().sge(8192, 300),
                           memory().sge(1000, 200)});
    peer({send_first(2000, 256), send_middle(2001, 256, 256), send_last(2002, 10, 512)});
    sends(acked(2002, 1));
    receives(ok(100).bytes(522));
    holds_peer_data(4096, 100, 0);
    holds_peer_data(8192, 300, 100);
    holds_peer_data(1000, 122, 400);
    holds_own_data(1122, 78);
}

RC_SCRIPT(ResponderExecution, SendOfTheExactRoom, "9.4.1", "a message as long as its receive fits") {
    connect({.mtu = 256});
    post_receive(100, 512);
    post_receive(101, 256, 1024);
    peer({send_first(2000, 256), send_last(2001, 256, 256), send_only(2002, 256, 512)});
    sends(acked(2002, 2));
    receives({ok(100).bytes(512), ok(101).bytes(256)});
    holds_peer_data(0, 512, 0);
    holds_peer_data(1024, 256, 512);
}

RC_SCRIPT(ResponderExecution, ReceivesAreTakenInOrder, "10.8.3.1",
          "each message takes the next receive, whatever its length") {
    connect();
    for (std::uint64_t i = 0; i < 3; ++i) {
        post_receive(100 + i, 512, 1024 * i);
    }
    peer({send_only(2000, 5), send_only(2001, 500, 1000), send_only(2002, 0)});
    sends(acked(2002, 3));
    receives({ok(100).bytes(5).wqe(0), ok(101).bytes(500).wqe(1), ok(102).bytes(0).wqe(2)});
    holds_peer_data(0, 5, 0);
    holds_peer_data(1024, 500, 1000);
}

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

RC_SCRIPT(ResponderExecution, WriteOnly, "9.4.3",
          "WRITE Only changes memory and nothing else: no receive, no completion") {
    connect();
    post_receive(100, 64, 8192);
    peer(write_only(2000, 13, 4096));
    sends(acked(2000, 1, 1));
    holds_peer_data(4096, 13, 4096);
    holds_own_data(4096 + 13, 51);
    holds_own_data(8192, 64);
}

RC_SCRIPT(ResponderExecution, WriteOfManyPackets, "9.4.3",
          "WRITE of four packets lands from its RETH address on") {
    connect({.mtu = 256});
    peer({write_first(2000, 769, 256, 1024), write_middle(2001, 256, 1280)});
    sends_nothing();
    peer({write_middle(2002, 256, 1536), write_last(2003, 1, 1792)});
    sends(acked(2003, 1));
    holds_own_data(0, 1024);
    holds_peer_data(1024, 769, 1024);
    holds_own_data(1793, 1024);
}

RC_SCRIPT(ResponderExecution, WriteWithImmediate, "9.4.3",
          "WRITE with Immediate takes a receive for its completion alone; byte_len is the whole message") {
    connect({.mtu = 256});
    post_receive(100, 64, 8192);
    post_receive(101, 64, 8192);
    peer({write_first(2000, 300, 256), packet(wire::kWriteLastImm, 2001, 44, 256).imm(kImm)});
    sends(acked(2001, 1, 1));
    receives(ok(100).bytes(300).op(WcOpcode::kRecvRdmaWithImm).with_imm(kImm));
    peer(packet(wire::kWriteOnlyImm, 2002, 7, 1024).imm(~kImm));
    sends(acked(2002, 2));
    receives(ok(101).bytes(7).op(WcOpcode::kRecvRdmaWithImm).with_imm(~kImm));
    holds_peer_data(0, 300, 0);
    holds_peer_data(1024, 7, 1024);
    holds_own_data(8192, 64);
}

RC_SCRIPT(ResponderExecution, ReadOnly, "9.4.4",
          "READ of one packet: READ Response Only with AETH, the request's PSN") {
    connect();
    peer(read_request(2000, 13, 4096));
    sends(response_only(2000, 1, 13, 4096).credits(0));
    holds_own_data(0, kMemoryBytes);
}

RC_SCRIPT(
    ResponderExecution, ReadOfManyPackets, "9.4.4",
    "READ of four packets: First, Middle, Middle, Last with following PSNs; AETH in First and Last alone") {
    connect({.mtu = 256});
    peer(read_request(2000, 769, 4096));
    sends({response_first(2000, 1, 256, 4096).credits(0), response_middle(2001, 256, 4352),
           response_middle(2002, 256, 4608), response_last(2003, 1, 1, 4864).credits(0)});
}

RC_SCRIPT(ResponderExecution, ReadOfExactlyTwoPackets, "9.4.4",
          "READ of two path MTUs: First and Last, both full") {
    connect({.mtu = 256});
    peer(read_request(2000, 512));
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 256, 256).credits(0)});
}

RC_SCRIPT(ResponderExecution, ReadTakesThePsnsOfItsResponses, "9.7.2",
          "the request behind a READ of four packets is four PSNs on") {
    connect({.mtu = 256});
    peer(read_request(2000, 769));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_middle(2002, 256, 512), response_last(2003, 1, 1, 768).credits(0)});
    peer(write_only(2004, 8, 4096));
    sends(acked(2004, 2));
    holds_peer_data(4096, 8, 4096);
}

RC_SCRIPT(ResponderExecution, FetchAdd, "9.4.5",
          "FetchAdd answers with the value before and adds modulo 2^64") {
    connect();
    word(64) = 40;
    word(72) = ~0ULL;
    peer({fetch_add_request(2000, 2, 64), fetch_add_request(2001, 5, 72)});
    sends({atomic_ack(2000, 2, 40).credits(0), atomic_ack(2001, 2, ~0ULL).credits(0)});
    EXPECT_EQ(word(64), 42U);
    EXPECT_EQ(word(72), 4U);
}

RC_SCRIPT(ResponderExecution, CompareSwap, "9.4.5",
          "CmpSwap swaps on equality alone and answers with the value before") {
    connect();
    word(64) = 5;
    peer(compare_swap_request(2000, 5, 77, 64));
    sends(atomic_ack(2000, 1, 5).credits(0));
    EXPECT_EQ(word(64), 77U);
    peer(compare_swap_request(2001, 5, 99, 64));
    sends(atomic_ack(2001, 2, 77).credits(0));
    EXPECT_EQ(word(64), 77U);
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

RC_SCRIPT(ResponderExecution, ResponsesKeepTheOrderOfRequests, "9.7.5.1.1",
          "READ, FetchAdd and WRITE of one burst are answered in PSN order") {
    connect({.mtu = 256});
    word(4096) = 9;
    peer({read_request(2000, 300), fetch_add_request(2002, 1, 4096), write_only(2003, 8, 8192)});
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 44, 256).credits(0),
           atomic_ack(2002, 3, 9).credits(0), acked(2003, 3)});
}

RC_SCRIPT(ResponderExecution, EveryPathMtu, "9.7.4.1.6",
          "messages are cut at 256, 512, 1024, 2048 and 4096 bytes, in both directions") {
    for (const std::uint32_t mtu : {256U, 512U, 1024U, 2048U, 4096U}) {
        connect({.mtu = mtu});
        peer({write_first(2000, 2 * mtu + 1, mtu, 65536), write_middle(2001, mtu, 65536 + mtu),
              write_last(2002, 1, 65536 + 2 * mtu)});
        sends(acked(2002, 1));
        holds_peer_data(65536, 2 * mtu + 1, 65536);
        peer(read_request(2003, 2 * mtu + 1));
        sends({response_first(2003, 2, mtu).credits(0), response_middle(2004, mtu, mtu),
               response_last(2005, 2, 1, 2 * mtu).credits(0)});
    }
}

RC_SCRIPT(ResponderExecution, LastBytesOfAWriteAreVisibleLast, "9.5",
          "a program that waits for the last byte of a WRITE finds the rest there, also when Last overtakes "
          "Middle") {
    connect({.mtu = 256});
    peer(write_first(2000, 768, 256));
    peer(unasked(write_last(2002, 256, 512)));
    sends(sequence_nak(2001, 0));
    holds_own_data(767, 1);
    peer({write_middle(2001, 256, 256), write_last(2002, 256, 512)});
    sends(acked(2002, 1));
    holds_peer_data(0, 768, 0);
}

// --- Zero length ------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderExecution, ZeroLengthSend, "9.4.1",
          "SEND of no bytes takes a receive, with or without room in it") {
    connect();
    host().post_recv(100, {});
    post_receive(101, 64);
    peer({send_only(2000, 0), packet(wire::kSendOnlyImm, 2001, 0).imm(kImm)});
    sends(acked(2001, 2));
    receives({ok(100).bytes(0), ok(101).bytes(0).with_imm(kImm)});
    holds_own_data(0, 64);
}

RC_SCRIPT(ResponderExecution, ZeroLengthWriteNeedsNoKey, "9.7.4.1.5 (C9-88)",
          "WRITE of no bytes: R_Key and address are not looked at") {
    connect();
    host().post_recv(100, {});
    peer({write_only(2000, 0).reth(~0ULL, 0xdead, 0),
          packet(wire::kWriteOnlyImm, 2001, 0).reth(1, 0, 0).imm(kImm)});
    sends(acked(2001, 2));
    receives(ok(100).bytes(0).op(WcOpcode::kRecvRdmaWithImm).with_imm(kImm));
    holds_own_data(0, kMemoryBytes);
}

RC_SCRIPT(ResponderExecution, ZeroLengthReadNeedsNoKey, "9.7.4.1.5 (C9-88)",
          "READ of no bytes: no key looked at, one empty READ Response Only, one PSN") {
    connect();
    peer(read_request(2000, 0).reth(~0ULL, 0xdead, 0));
    sends(response_only(2000, 1, 0).credits(0));
    peer(read_request(2001, 8));
    sends(response_only(2001, 2, 8).credits(0));
}

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
