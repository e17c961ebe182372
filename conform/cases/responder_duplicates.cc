// The responder when requests come twice (IBA 9.7.5.1.5).
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(ResponderDuplicate, Send, "9.7.5.1.5 (C9-105)",
             "a SEND that comes twice is acknowledged twice and delivered once") {
    connect();
    post_receive(100, 64);
    post_receive(101, 64, 4096);
    peer(send_only(2000, 8));
    sends(acked(2000, 1, 1));
    receives(ok(100).bytes(8));
    set_word(0, 42);  // the application has taken the message and uses its buffer for something else
    peer(send_only(2000, 8));
    sends(acked(2000, 1, 1));
    receives({});
    holds_word(0, 42);
    counts(&Counters::duplicate_request, 1);
    holds_own_data(4096, 64);
    peer(send_only(2001, 8));
    sends(acked(2001, 2));
    receives(ok(101).bytes(8));
}

CONFORM_CASE(ResponderDuplicate, Write, "9.7.5.1.5 (C9-105)",
             "a WRITE that comes twice does not overwrite what was stored since") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    set_word(0, 42);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    holds_word(0, 42);
}

CONFORM_CASE(ResponderDuplicate, WriteWithImmediate, "9.7.5.1.5 (C9-105)",
             "a WRITE with Immediate that comes twice takes one receive") {
    connect();
    post_receive(100, 64, 4096);
    post_receive(101, 64, 4096);
    peer(packet(wire::kWriteOnlyImm, 2000, 8).imm(7));
    sends(acked(2000, 1, 1));
    peer(packet(wire::kWriteOnlyImm, 2000, 8).imm(7));
    sends(acked(2000, 1, 1));
    receives(ok(100).bytes(8).with_imm(7));
}

CONFORM_CASE(ResponderDuplicate, WholeMessage, "9.7.5.1.5 (C9-105)",
             "First, Middle and Last that come twice leave one message") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    post_receive(101, 1024, 4096);
    const ScriptPackets message = {send_first(2000, 256), send_middle(2001, 256, 256),
                                   send_last(2002, 8, 512)};
    peer(message);
    sends(acked(2002, 1, 1));
    peer(message);
    sends(acked(2002, 1, 1));
    receives(ok(100).bytes(520));
}

CONFORM_CASE(ResponderDuplicate, InsideAMessage, "9.7.5.1.5",
             "a First that comes twice inside its message neither begins nor breaks one") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer({send_first(2000, 256), send_first(2000, 256).ackreq()});
    sends(acked(2000, 0, 1));  // limit = MSN + credits (9.7.7.2): the receive in use still counts
    peer({send_middle(2001, 256, 256), send_last(2002, 8, 512)});
    sends(acked(2002, 1));
    receives(ok(100).bytes(520));
    holds_peer_data(0, 520, 0);
}

CONFORM_CASE(ResponderDuplicate, AnsweredWithTheNewestPsn, "9.7.5.1.2",
             "the ACK of a duplicate carries the newest PSN that was executed, and the newest MSN") {
    connect();
    peer({write_only(2000, 8), write_only(2001, 8), write_only(2002, 8)});
    sends(acked(2002, 3));
    peer(write_only(2000, 8));
    sends(acked(2002, 3));
}

CONFORM_CASE(ResponderDuplicate, OverTheWrap, "9.7.1", "behind PSN 0, 0xffffff is a duplicate") {
    connect({.psn_b = 0xffffff});
    peer({write_only(0xffffff, 8), write_only(0, 8)});
    sends(acked(0, 2));
    set_word(0, 42);
    peer(write_only(0xffffff, 8));
    sends(acked(0, 2));
    holds_word(0, 42);
}

CONFORM_CASE(ResponderDuplicate, ReadFromTheMiddle, "9.7.5.1.5",
             "the rest of a READ, asked for from a later PSN: First from there to the end") {
    connect({.mtu = 256});
    peer(read_request(2000, 1000));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_middle(2002, 256, 512), response_last(2003, 1, 232, 768).credits(0)});
    peer(read_request(2001, 744, 256));
    sends({response_first(2001, 1, 256, 256).credits(0), response_middle(2002, 256, 512),
           response_last(2003, 1, 232, 768).credits(0)});
    peer(read_request(2003, 232, 768));
    sends(response_only(2003, 1, 232, 768).credits(0));
    peer(write_only(2004, 8, 4096));
    sends(acked(2004, 2));
}

CONFORM_CASE(ResponderDuplicate, ReadOfLess, "9.7.5.1.5",
             "a READ asked for again with a shorter length is answered for that length") {
    connect({.mtu = 256});
    peer(read_request(2000, 1000));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_middle(2002, 256, 512), response_last(2003, 1, 232, 768).credits(0)});
    peer(read_request(2001, 256, 256));
    sends(response_only(2001, 1, 256, 256).credits(0));
}

CONFORM_CASE(ResponderDuplicate, ReadBeyondTheOriginal, "9.7.5.1.5",
             "a READ asked for again with PSNs that are still to come is not answered and does no harm") {
    connect({.mtu = 256});
    peer(read_request(2000, 300));
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 44, 256).credits(0)});
    peer(read_request(2000, 600));
    peer(read_request(2001, 0x8000'0000U, 256));
    silence(kSecond);
    state(QpState::kRts);
    peer(write_only(2002, 8, 4096));
    sends(acked(2002, 2));
}

CONFORM_CASE(ResponderDuplicate, InsideAReadsPsns, "9.7.2",
             "a request with a PSN that a READ's responses have taken is a duplicate") {
    connect({.mtu = 256});
    peer(read_request(2000, 700));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_last(2002, 1, 188, 512).credits(0)});
    peer(write_only(2001, 8));
    sends(acked(2002, 1));
    holds_own_data(0, 8);
}

CONFORM_CASE(ResponderDuplicate, FetchAdd, "9.7.5.1.3",
             "a FetchAdd that comes twice adds once; the saved value goes back again") {
    connect();
    set_word(64, 40);
    peer(fetch_add_request(2000, 2, 64));
    sends(atomic_ack(2000, 1, 40).credits(0));
    set_word(64, 1000);
    peer(fetch_add_request(2000, 2, 64));
    sends(atomic_ack(2000, 1, 40).credits(0));
    holds_word(64, 1000);
}

CONFORM_CASE(ResponderDuplicate, CompareSwap, "9.7.5.1.3",
             "a CmpSwap that comes twice is answered with the first outcome, whatever the memory holds now") {
    connect();
    set_word(64, 5);
    peer(compare_swap_request(2000, 5, 6, 64));
    sends(atomic_ack(2000, 1, 5).credits(0));
    set_word(64, 5);
    peer(compare_swap_request(2000, 5, 6, 64));
    sends(atomic_ack(2000, 1, 5).credits(0));
    holds_word(64, 5);
}

CONFORM_CASE(ResponderDuplicate, AtomicBeyondTheSaved, "9.7.5.1.3",
             "max_dest_rd_atomic results are kept; an older atomic is neither answered nor done again") {
    connect({.max_dest_rd_atomic = 2});
    for (std::uint32_t i = 0; i < 3; ++i) {
        set_word(64 + std::size_t{8} * i, 50 + i);
        peer(fetch_add_request(2000 + i, 1, 64 + std::size_t{8} * i));
        sends(atomic_ack(2000 + i, i + 1, 50 + i).credits(0));
    }
    peer(fetch_add_request(2000, 1, 64));
    silence(kSecond);
    holds_word(64, 51);
    peer(fetch_add_request(2001, 1, 72));
    sends(atomic_ack(2001, 3, 51).credits(0));
    peer(fetch_add_request(2002, 1, 80));
    sends(atomic_ack(2002, 3, 52).credits(0));
    holds_word(72, 52);
    holds_word(80, 53);
}

CONFORM_CASE(ResponderDuplicate, ReservedOpcode, "9.7.5.1.5",
             "a reserved opcode with an old PSN was never a request: no answer, no harm") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    peer(packet(wire::kSendOnly, 2000, 8).opcode_lie(0x1e));
    silence(kSecond);
    state(QpState::kRts);
}

}  // namespace
}  // namespace urnic::conform
