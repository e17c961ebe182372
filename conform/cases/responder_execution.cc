// The responder with requests that come in order: what it carries out, what it answers, what its application
// sees (IBA 9.4, 9.7.5.1, 9.7.7).
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kImm = 0x1234'5678;

CONFORM_CASE(ResponderExecution, SendOnly, "9.4.1",
             "SEND Only fills a receive and is acknowledged: its PSN, MSN 1") {
    connect();
    post_receive(100, 64, 4096);
    peer(send_only(2000, 13));
    sends(acked(2000, 1));
    receives(ok(100).bytes(13).op(WcOpcode::kRecv));
    counts(&Counters::rdma_recvs, 1);
    holds_peer_data(4096, 13, 0);
    holds_own_data(4096 + 13, 51);
}

CONFORM_CASE(ResponderExecution, SendOfManyPackets, "9.4.1",
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

CONFORM_CASE(ResponderExecution, SendIsScattered, "9.4.1",
             "SEND fills the receive's segments in order, over packet borders") {
    connect({.mtu = 256});
    post_receive(100, std::vector<abi::Sge>{memory().sge(4096, 100), memory().sge(9000, 0),
                                            memory().sge(8192, 300), memory().sge(1000, 200)});
    peer({send_first(2000, 256), send_middle(2001, 256, 256), send_last(2002, 10, 512)});
    sends(acked(2002, 1));
    receives(ok(100).bytes(522));
    holds_peer_data(4096, 100, 0);
    holds_peer_data(8192, 300, 100);
    holds_peer_data(1000, 122, 400);
    holds_own_data(1122, 78);
}

CONFORM_CASE(ResponderExecution, SendOfTheExactRoom, "9.4.1", "a message as long as its receive fits") {
    connect({.mtu = 256});
    post_receive(100, 512);
    post_receive(101, 256, 1024);
    peer({send_first(2000, 256), send_last(2001, 256, 256), send_only(2002, 256, 512)});
    sends(acked(2002, 2));
    receives({ok(100).bytes(512), ok(101).bytes(256)});
    holds_peer_data(0, 512, 0);
    holds_peer_data(1024, 256, 512);
}

CONFORM_CASE(ResponderExecution, ReceivesAreTakenInOrder, "10.8.3.1",
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

CONFORM_CASE(ResponderExecution, WriteOnly, "9.4.3",
             "WRITE Only changes memory and nothing else: no receive, no completion") {
    connect();
    post_receive(100, 64, 8192);
    peer(write_only(2000, 13, 4096));
    sends(acked(2000, 1, 1));
    holds_peer_data(4096, 13, 4096);
    holds_own_data(4096 + 13, 51);
    holds_own_data(8192, 64);
}

CONFORM_CASE(ResponderExecution, WriteOfManyPackets, "9.4.3",
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

CONFORM_CASE(ResponderExecution, WriteWithImmediate, "9.4.3",
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

CONFORM_CASE(ResponderExecution, ReadOnly, "9.4.4",
             "READ of one packet: READ Response Only with AETH, the request's PSN") {
    connect();
    peer(read_request(2000, 13, 4096));
    sends(response_only(2000, 1, 13, 4096).credits(0));
    holds_own_data(0, kMemoryBytes);
}

CONFORM_CASE(
    ResponderExecution, ReadOfManyPackets, "9.4.4",
    "READ of four packets: First, Middle, Middle, Last with following PSNs; AETH in First and Last alone") {
    connect({.mtu = 256});
    peer(read_request(2000, 769, 4096));
    sends({response_first(2000, 1, 256, 4096).credits(0), response_middle(2001, 256, 4352),
           response_middle(2002, 256, 4608), response_last(2003, 1, 1, 4864).credits(0)});
}

CONFORM_CASE(ResponderExecution, ReadOfExactlyTwoPackets, "9.4.4",
             "READ of two path MTUs: First and Last, both full") {
    connect({.mtu = 256});
    peer(read_request(2000, 512));
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 256, 256).credits(0)});
}

CONFORM_CASE(ResponderExecution, ReadTakesThePsnsOfItsResponses, "9.7.2",
             "the request behind a READ of four packets is four PSNs on") {
    connect({.mtu = 256});
    peer(read_request(2000, 769));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_middle(2002, 256, 512), response_last(2003, 1, 1, 768).credits(0)});
    peer(write_only(2004, 8, 4096));
    sends(acked(2004, 2));
    holds_peer_data(4096, 8, 4096);
}

CONFORM_CASE(ResponderExecution, FetchAdd, "9.4.5",
             "FetchAdd answers with the value before and adds modulo 2^64") {
    connect();
    set_word(64, 40);
    set_word(72, ~0ULL);
    peer({fetch_add_request(2000, 2, 64), fetch_add_request(2001, 5, 72)});
    sends({atomic_ack(2000, 2, 40).credits(0), atomic_ack(2001, 2, ~0ULL).credits(0)});
    holds_word(64, 42);
    holds_word(72, 4);
}

CONFORM_CASE(ResponderExecution, CompareSwap, "9.4.5",
             "CmpSwap swaps on equality alone and answers with the value before") {
    connect();
    set_word(64, 5);
    peer(compare_swap_request(2000, 5, 77, 64));
    sends(atomic_ack(2000, 1, 5).credits(0));
    holds_word(64, 77);
    peer(compare_swap_request(2001, 5, 99, 64));
    sends(atomic_ack(2001, 2, 77).credits(0));
    holds_word(64, 77);
}

CONFORM_CASE(ResponderExecution, ResponsesKeepTheOrderOfRequests, "9.7.5.1.1",
             "READ, FetchAdd and WRITE of one burst are answered in PSN order") {
    connect({.mtu = 256});
    set_word(4096, 9);
    peer({read_request(2000, 300), fetch_add_request(2002, 1, 4096), write_only(2003, 8, 8192)});
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 44, 256).credits(0),
           atomic_ack(2002, 3, 9).credits(0), acked(2003, 3)});
}

CONFORM_CASE(ResponderExecution, EveryPathMtu, "9.7.4.1.6",
             "messages are cut at 256, 512, 1024, 2048 and 4096 bytes, in both directions") {
    for (const std::uint32_t mtu : {256U, 512U, 1024U, 2048U, 4096U}) {
        connect({.mtu = mtu});
        peer({write_first(2000, 2 * mtu + 1, mtu, 65536), write_middle(2001, mtu, 65536 + mtu),
              write_last(2002, 1, 65536 + 2 * mtu)});
        sends(acked(2002, 1));
        holds_peer_data(65536, 2 * mtu + 1, 65536);
        peer(read_request(2003, 2 * mtu + 1));
        sends({response_first(2003, 2, mtu).credits(0), response_middle(2004, mtu, mtu),
               response_last(2005, 2, 1, std::size_t{2} * mtu).credits(0)});
    }
}

CONFORM_CASE(
    ResponderExecution, LastBytesOfAWriteAreVisibleLast, "9.5",
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

CONFORM_CASE(ResponderExecution, ZeroLengthSend, "9.4.1",
             "SEND of no bytes takes a receive, with or without room in it") {
    connect();
    post_receive(100, std::vector<abi::Sge>{});
    post_receive(101, 64);
    peer({send_only(2000, 0), packet(wire::kSendOnlyImm, 2001, 0).imm(kImm)});
    sends(acked(2001, 2));
    receives({ok(100).bytes(0), ok(101).bytes(0).with_imm(kImm)});
    holds_own_data(0, 64);
}

CONFORM_CASE(ResponderExecution, ZeroLengthWriteNeedsNoKey, "9.7.4.1.5 (C9-88)",
             "WRITE of no bytes: R_Key and address are not looked at") {
    connect();
    post_receive(100, std::vector<abi::Sge>{});
    peer({write_only(2000, 0).reth(~0ULL, 0xdead, 0),
          packet(wire::kWriteOnlyImm, 2001, 0).reth(1, 0, 0).imm(kImm)});
    sends(acked(2001, 2));
    receives(ok(100).bytes(0).op(WcOpcode::kRecvRdmaWithImm).with_imm(kImm));
    holds_own_data(0, kMemoryBytes);
}

CONFORM_CASE(ResponderExecution, ZeroLengthReadNeedsNoKey, "9.7.4.1.5 (C9-88)",
             "READ of no bytes: no key looked at, one empty READ Response Only, one PSN") {
    connect();
    peer(read_request(2000, 0).reth(~0ULL, 0xdead, 0));
    sends(response_only(2000, 1, 0).credits(0));
    peer(read_request(2001, 8));
    sends(response_only(2001, 2, 8).credits(0));
}

// --- Events -----------------------------------------------------------------------------------------------

}  // namespace
}  // namespace urnic::conform
