// The responder when requests come twice (IBA 9.7.5.1.5).
#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

RC_SCRIPT(ResponderDuplicate, Send, "9.7.5.1.5 (C9-105)",
          "a SEND that comes twice is acknowledged twice and delivered once") {
    connect();
    post_receive(100, 64);
    post_receive(101, 64, 4096);
    peer(send_only(2000, 8));
    sends(acked(2000, 1, 1));
    receives(ok(100).bytes(8));
    word(0) = 42;  // the application has taken the message and uses its buffer for something else
    peer(send_only(2000, 8));
    sends(acked(2000, 1, 1));
    receives({});
    EXPECT_EQ(word(0), 42U);
    EXPECT_EQ(host().counters.duplicate_request.value(), 1U);
    holds_own_data(4096, 64);
    peer(send_only(2001, 8));
    sends(acked(2001, 2));
    receives(ok(101).bytes(8));
}

RC_SCRIPT(ResponderDuplicate, Write, "9.7.5.1.5 (C9-105)",
          "a WRITE that comes twice does not overwrite what was stored since") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    word(0) = 42;
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    EXPECT_EQ(word(0), 42U);
}

RC_SCRIPT(ResponderDuplicate, WriteWithImmediate, "9.7.5.1.5 (C9-105)",
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

RC_SCRIPT(ResponderDuplicate, WholeMessage, "9.7.5.1.5 (C9-105)",
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

RC_SCRIPT(ResponderDuplicate, InsideAMessage, "9.7.5.1.5",
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

RC_SCRIPT(ResponderDuplicate, AnsweredWithTheNewestPsn, "9.7.5.1.2",
          "the ACK of a duplicate carries the newest PSN that was carried out, and the newest MSN") {
    connect();
    peer({write_only(2000, 8), write_only(2001, 8), write_only(2002, 8)});
    sends(acked(2002, 3));
    peer(write_only(2000, 8));
    sends(acked(2002, 3));
}

RC_SCRIPT(ResponderDuplicate, OverTheWrap, "9.7.1", "behind PSN 0, 0xffffff is a duplicate") {
    connect({.psn_b = 0xffffff});
    peer({write_only(0xffffff, 8), write_only(0, 8)});
    sends(acked(0, 2));
    word(0) = 42;
    peer(write_only(0xffffff, 8));
    sends(acked(0, 2));
    EXPECT_EQ(word(0), 42U);
}

RC_SCRIPT(ResponderDuplicate, Read, "9.7.5.1.5",
          "a READ that comes twice is executed twice: the second answer has what the memory holds then") {
    connect({.mtu = 256});
    peer(read_request(2000, 300));
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 44, 256).credits(0)});
    peer(write_only(2002, 8, 256));
    sends(acked(2002, 2));
    peer(read_request(2000, 300));
    sends({response_first(2000, 2, 256).credits(0),
           response_last(2001, 2, 44, 256).credits(0).bytes({memory().data() + 256, 44})});
    peer(write_only(2003, 8, 4096));
    sends(acked(2003, 3));
}

RC_SCRIPT(ResponderDuplicate, ReadFromTheMiddle, "9.7.5.1.5",
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

RC_SCRIPT(ResponderDuplicate, ReadOfLess, "9.7.5.1.5",
          "a READ asked for again with a shorter length is answered for that length") {
    connect({.mtu = 256});
    peer(read_request(2000, 1000));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_middle(2002, 256, 512), response_last(2003, 1, 232, 768).credits(0)});
    peer(read_request(2001, 256, 256));
    sends(response_only(2001, 1, 256, 256).credits(0));
}

RC_SCRIPT(ResponderDuplicate, ReadBeyondTheOriginal, "9.7.5.1.5",
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

RC_SCRIPT(ResponderDuplicate, ReadWhileItIsAnswered, "9.7.5.1.5",
          "a READ asked for again while its answer goes out starts over at the PSN that is wanted") {
    connect({.mtu = 256});
    arrives(read_request(2000, 1000));
    ASSERT_TRUE(host().qp().progress(now(), 2, host()));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256)});
    arrives(read_request(2001, 744, 256));
    host().progress();
    sends({response_first(2001, 1, 256, 256).credits(0), response_middle(2002, 256, 512),
           response_last(2003, 1, 232, 768).credits(0)});
    sends_nothing();
    peer(write_only(2004, 8, 4096));
    sends(acked(2004, 2));
}

RC_SCRIPT(ResponderDuplicate, ReadBeforeNewAnswers, "9.7.5.1.5",
          "READs asked for again are answered behind the answer that has begun, before new ones, and all of "
          "them in "
          "the order of PSNs") {
    connect({.mtu = 256});
    arrives(read_request(2000, 512));
    arrives(read_request(2002, 512, 512));
    arrives(read_request(2004, 256, 1024));
    ASSERT_TRUE(host().qp().progress(now(), 3, host()));
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 256, 256).credits(0),
           response_first(2002, 3, 256, 512).credits(0)});
    arrives(read_request(2001, 256, 256));
    ASSERT_TRUE(host().qp().progress(now(), 2, host()));
    sends({response_last(2003, 3, 256, 768).credits(0), response_only(2001, 3, 256, 256).credits(0)});
    arrives(read_request(2003, 256, 768));
    arrives(read_request(2000, 512));
    host().progress();
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 256, 256).credits(0),
           response_only(2003, 3, 256, 768).credits(0), response_only(2004, 3, 256, 1024).credits(0)});
    peer(write_only(2005, 8, 4096));
    sends(acked(2005, 4));
}

RC_SCRIPT(
    ResponderDuplicate, EverythingFromAMissingResponseOn, "9.7.5.1.5",
    "a requester that goes back asks for all READs again: the one whose answer has begun starts over behind "
    "those before it") {
    connect({.mtu = 256});
    arrives(read_request(2000, 512));
    arrives(read_request(2002, 512, 512));
    arrives(read_request(2004, 256, 1024));
    ASSERT_TRUE(host().qp().progress(now(), 3, host()));
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 256, 256).credits(0),
           response_first(2002, 3, 256, 512).credits(0)});
    arrives(read_request(2001, 256, 256));
    arrives(read_request(2002, 512, 512));
    arrives(read_request(2004, 256, 1024));
    host().progress();
    sends({response_only(2001, 3, 256, 256).credits(0), response_first(2002, 3, 256, 512).credits(0),
           response_last(2003, 3, 256, 768).credits(0), response_only(2004, 3, 256, 1024).credits(0)});
    sends_nothing();
}

RC_SCRIPT(ResponderDuplicate, FloodOfReads, "9.7.5.1.5",
          "of a thousand repeated READs no more are answered than max_dest_rd_atomic, and new ones find "
          "their place") {
    constexpr std::uint32_t kDepth = 16;
    connect({.mtu = 256, .max_dest_rd_atomic = kDepth});
    peer(read_request(2000, 25'600));
    EXPECT_EQ(seen().size(), 100U);
    seen().clear();
    for (std::uint32_t i = 0; i < 1000; ++i) {
        arrives(read_request(2000 + i % 100, 8));
    }
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        arrives(read_request(2100 + i, 8));
    }
    host().progress();
    ASSERT_EQ(seen().size(), 2 * kDepth);
    seen().erase(seen().begin(), seen().begin() + kDepth);
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        sends(response_only(2100 + i, 1 + kDepth, 8).credits(0));
    }
    state(QpState::kRts);
}

RC_SCRIPT(ResponderDuplicate, ReadWhoseKeyIsGone, "9.7.5.1.5",
          "an old READ request that arrives when its key is gone is dropped: the requester has its data, the "
          "connection lives") {
    connect();
    SimRegion& region = host().add_region(4096);
    peer(read_request(2000, 8).reth(region.addr(), region.key(), 8));
    sends(response_only(2000, 1, 8).credits(0).bytes({region.data(), 8}));
    region.revoke();
    peer(read_request(2000, 8).reth(region.addr(), region.key(), 8));
    silence(kSecond);
    state(QpState::kRts);
    peer(write_only(2001, 8));
    sends(acked(2001, 2));
}

RC_SCRIPT(ResponderDuplicate, InsideAReadsPsns, "9.7.2",
          "a request with a PSN that a READ's responses have taken is a duplicate") {
    connect({.mtu = 256});
    peer(read_request(2000, 700));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256),
           response_last(2002, 1, 188, 512).credits(0)});
    peer(write_only(2001, 8));
    sends(acked(2002, 1));
    holds_own_data(0, 8);
}

RC_SCRIPT(ResponderDuplicate, FetchAdd, "9.7.5.1.3",
          "a FetchAdd that comes twice adds once; the saved value goes back again") {
    connect();
    word(64) = 40;
    peer(fetch_add_request(2000, 2, 64));
    sends(atomic_ack(2000, 1, 40).credits(0));
    word(64) = 1000;
    peer(fetch_add_request(2000, 2, 64));
    sends(atomic_ack(2000, 1, 40).credits(0));
    EXPECT_EQ(word(64), 1000U);
}

RC_SCRIPT(ResponderDuplicate, CompareSwap, "9.7.5.1.3",
          "a CmpSwap that comes twice is answered with the first outcome, whatever the memory holds now") {
    connect();
    word(64) = 5;
    peer(compare_swap_request(2000, 5, 6, 64));
    sends(atomic_ack(2000, 1, 5).credits(0));
    word(64) = 5;
    peer(compare_swap_request(2000, 5, 6, 64));
    sends(atomic_ack(2000, 1, 5).credits(0));
    EXPECT_EQ(word(64), 5U);
}

RC_SCRIPT(ResponderDuplicate, AtomicWhoseKeyIsGone, "9.7.5.1.3",
          "a replay needs no memory: it works when the key is gone") {
    connect();
    SimRegion& region = host().add_region(64);
    peer(fetch_add_request(2000, 2).reth(region.addr(), region.key(), 0));
    sends(atomic_ack(2000, 1, 0).credits(0));
    region.revoke();
    peer(fetch_add_request(2000, 2).reth(region.addr(), region.key(), 0));
    sends(atomic_ack(2000, 1, 0).credits(0));
}

RC_SCRIPT(ResponderDuplicate, AtomicBeyondTheSaved, "9.7.5.1.3",
          "max_dest_rd_atomic results are kept; an older atomic is neither answered nor done again") {
    connect({.max_dest_rd_atomic = 2});
    for (std::uint32_t i = 0; i < 3; ++i) {
        word(64 + std::size_t{8} * i) = 50 + i;
        peer(fetch_add_request(2000 + i, 1, 64 + std::size_t{8} * i));
        sends(atomic_ack(2000 + i, i + 1, 50 + i).credits(0));
    }
    peer(fetch_add_request(2000, 1, 64));
    silence(kSecond);
    EXPECT_EQ(word(64), 51U);
    peer(fetch_add_request(2001, 1, 72));
    sends(atomic_ack(2001, 3, 51).credits(0));
    peer(fetch_add_request(2002, 1, 80));
    sends(atomic_ack(2002, 3, 52).credits(0));
    EXPECT_EQ(word(72), 52U);
    EXPECT_EQ(word(80), 53U);
}

RC_SCRIPT(ResponderDuplicate, ReservedOpcode, "9.7.5.1.5",
          "a reserved opcode with an old PSN was never a request: no answer, no harm") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    peer(packet(wire::kSendOnly, 2000, 8).opcode_lie(0x1e));
    silence(kSecond);
    state(QpState::kRts);
}

}  // namespace
}  // namespace urnic::sim
