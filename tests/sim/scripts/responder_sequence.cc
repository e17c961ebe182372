// The responder when PSNs do not follow each other: gaps and duplicates
// (IBA 9.7.4.1.1, 9.7.5.1.2, 9.7.5.1.5). What arrives behind a gap may be kept or discarded: these peers send
// it again, and look at the wire and at what the application sees.
#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;
constexpr std::uint32_t kHalf = 1U << 23U;

// --- Gaps -------------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderGap, OneNakThenSilence, "9.7.5.1.2",
          "behind a gap: one NAK 0x60 with the PSN that is missing, then silence until it comes") {
    connect();
    peer(unasked(write_only(2001, 8, 64)));
    sends(sequence_nak(2000, 0));
    peer({unasked(write_only(2002, 8, 128)), unasked(write_only(2003, 8, 192))});
    silence(kSecond);
    peer({unasked(write_only(2000, 8)), unasked(write_only(2001, 8, 64)), unasked(write_only(2002, 8, 128)),
          write_only(2003, 8, 192)});
    sends(acked(2003, 4));
    for (std::size_t offset = 0; offset < 256; offset += 64) {
        holds_peer_data(offset, 8, offset);
        holds_own_data(offset + 8, 56);
    }
}

RC_SCRIPT(ResponderGap, NakOnceMoreForTheNextGap, "9.7.5.1.2",
          "once the missing PSN came, the next gap draws a NAK of its own") {
    connect();
    for (std::uint32_t round = 0; round < 3; ++round) {
        const std::uint32_t psn = 2000 + 2 * round;
        peer(unasked(write_only(psn + 1, 8, 64)));
        sends(sequence_nak(psn, 2 * round));
        peer({unasked(write_only(psn, 8)), write_only(psn + 1, 8, 64)});
        sends(acked(psn + 1, 2 * round + 2));
    }
}

RC_SCRIPT(ResponderGap, NakSaysWhatCameBefore, "9.7.5.1.2",
          "the NAK's PSN acknowledges all before it, its MSN counts them") {
    connect();
    peer({unasked(write_only(2000, 8)), unasked(write_only(2001, 8)), unasked(write_only(2003, 8))});
    sends(sequence_nak(2002, 2));
    peer({unasked(write_only(2002, 8)), write_only(2003, 8)});
    sends(acked(2003, 4));
}

RC_SCRIPT(ResponderGap, MissingFirst, "9.7.5.1.2",
          "a lost First: NAK for it, and the message is delivered once it is sent again") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    post_receive(101, 1024, 4096);
    peer({unasked(send_middle(2001, 256, 256)), unasked(send_last(2002, 8, 512))});
    sends(sequence_nak(2000, 0));
    receives({});
    peer({send_first(2000, 256), send_middle(2001, 256, 256), send_last(2002, 8, 512)});
    sends(acked(2002, 1, 1));
    receives(ok(100).bytes(520));
    holds_peer_data(0, 520, 0);
    holds_own_data(4096, 1024);
}

RC_SCRIPT(ResponderGap, MissingMiddle, "9.7.5.1.2",
          "a lost Middle: NAK for it, one completion in the end, every byte in its place") {
    connect({.mtu = 256});
    post_receive(100, 1024);
    peer({send_first(2000, 256), unasked(send_last(2002, 8, 512))});
    sends(sequence_nak(2001, 0));
    receives({});
    peer({send_middle(2001, 256, 256), send_last(2002, 8, 512)});
    sends(acked(2002, 1));
    receives(ok(100).bytes(520));
    holds_peer_data(0, 520, 0);
}

RC_SCRIPT(ResponderGap, MissingLast, "9.7.5.1.2",
          "a lost Last: NAK for it when the next message comes, completions in order") {
    connect({.mtu = 256});
    post_receive(100, 512);
    post_receive(101, 512, 4096);
    peer({send_first(2000, 256), unasked(send_only(2002, 8, 1024))});
    sends(sequence_nak(2001, 0));
    receives({});
    peer({unasked(send_last(2001, 8, 256)), send_only(2002, 8, 1024)});
    sends(acked(2002, 2));
    receives({ok(100).bytes(264), ok(101).bytes(8)});
    holds_peer_data(0, 264, 0);
    holds_peer_data(4096, 8, 1024);
}

RC_SCRIPT(
    ResponderGap, NoAcknowledgementOvertakesARequester, "9.7.5.1.2",
    "from a gap on everything comes again, packet by packet: none is acknowledged before it has come again") {
    connect({.mtu = 256});
    post_receive(100, 2048);
    peer({unasked(send_first(2000, 256)), unasked(send_middle(2002, 256, 512)),
          unasked(send_middle(2003, 256, 768)), send_last(2004, 8, 1024)});
    sends(sequence_nak(2001, 0));
    peer(unasked(send_middle(2001, 256, 256)));
    sends_nothing();
    // What is discarded behind the gap counts as new now, and nobody asked to hear of it.
    for (const std::uint32_t psn : {2002U, 2003U}) {
        peer(unasked(send_middle(psn, 256, std::size_t{256} * (psn - 2000))));
        is_selective() ? sends(acked(psn, 1)) : sends_nothing();
    }
    for (int i = 0; i < 2; ++i) {
        peer(send_last(2004, 8, 1024));
        sends(acked(2004, 1));
    }
    receives(ok(100).bytes(1032));
    holds_peer_data(0, 1032, 0);
}

RC_SCRIPT(ResponderGap, LatePacketAskedForAgain, "9.7.5.1.2",
          "the missing packet was only late, and comes once more because of the NAK: all is acknowledged") {
    connect();
    peer({write_only(2001, 8, 64), write_only(2002, 8, 128)});
    sends(sequence_nak(2000, 0));
    peer(unasked(write_only(2000, 8)));
    sends_nothing();
    peer(write_only(2000, 8));
    sends(acked(is_selective() ? 2002 : 2000, is_selective() ? 3 : 1));
    peer(write_only(2002, 8, 128));
    sends(is_selective() ? acked(2002, 3) : sequence_nak(2001, 1));
}

RC_SCRIPT(ResponderGap, MessagesKeepTheirOrder, "9.5",
          "SENDs that arrive in reverse fill the receives in the order of their PSNs") {
    connect();
    for (std::uint64_t i = 0; i < 4; ++i) {
        post_receive(100 + i, 64, 1024 * i);
    }
    peer(unasked(send_only(2003, 4, 300)));
    sends(sequence_nak(2000, 0));
    peer({unasked(send_only(2002, 3, 200)), unasked(send_only(2001, 2, 100))});
    sends_nothing();
    receives({});
    peer({unasked(send_only(2000, 1)), unasked(send_only(2001, 2, 100)), unasked(send_only(2002, 3, 200)),
          send_only(2003, 4, 300)});
    sends(acked(2003, 4));
    receives({ok(100).bytes(1), ok(101).bytes(2), ok(102).bytes(3), ok(103).bytes(4)});
    for (std::uint32_t i = 0; i < 4; ++i) {
        holds_peer_data(std::size_t{1024} * i, i + 1, std::size_t{100} * i);
    }
}

RC_SCRIPT(ResponderGap, ReadBehindIt, "9.7.5.1.2",
          "a READ behind a gap is not answered; asked for again it is, once") {
    connect({.mtu = 256});
    peer(read_request(2001, 300, 4096));
    sends(sequence_nak(2000, 0));
    silence(kSecond);
    peer({unasked(write_only(2000, 8)), read_request(2001, 300, 4096)});
    sends({response_first(2001, 2, 256, 4096).credits(0), response_last(2002, 2, 44, 4352).credits(0)});
    holds_peer_data(0, 8, 0);
}

RC_SCRIPT(ResponderGap, AtomicBehindIt, "9.7.5.1.2",
          "an atomic behind a gap is carried out once, when its turn comes") {
    connect();
    word(64) = 10;
    peer(fetch_add_request(2001, 1, 64));
    sends(sequence_nak(2000, 0));
    EXPECT_EQ(word(64), 10U);
    peer({unasked(write_only(2000, 8)), fetch_add_request(2001, 1, 64)});
    sends(atomic_ack(2001, 2, 10).credits(0));
    EXPECT_EQ(word(64), 11U);
}

RC_SCRIPT(ResponderGap, ResponsesBeforeTheNak, "9.7.5.1.1",
          "a READ before the gap is answered in full, then comes the NAK") {
    connect({.mtu = 256});
    peer({read_request(2000, 300), unasked(write_only(2003, 8, 4096))});
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 44, 256).credits(0),
           sequence_nak(2002, 1)});
}

RC_SCRIPT(ResponderGap, BadRequestBehindIt, "9.7.4.1.1",
          "the PSN is looked at first: what is wrong with a request behind a gap does not matter yet") {
    connect();
    peer({unasked(write_only(2001, 8).rkey(0xdead)), unasked(send_last(2002, 8)),
          packet(wire::kSendOnly, 2003, 8).opcode_lie(0x18)});
    sends(sequence_nak(2000, 0));
    state(QpState::kRts);
    if (is_selective()) {
        peer(unasked(write_only(2000, 8)));  // it is the turn of the wrong key, which is held
        refuses(2001, 1, wire::kNakRemoteAccessError);
    } else {
        peer({unasked(write_only(2000, 8)), write_only(2001, 8)});
        sends(acked(2001, 2));
    }
}

RC_SCRIPT(ResponderGap, HalfOfThePsnSpace, "9.7.1",
          "2^23 - 1 PSNs ahead is a gap; 2^23 is behind, a duplicate") {
    connect();
    peer(write_only(2000 + kHalf - 1, 8));
    sends(sequence_nak(2000, 0));
    connect();
    peer(write_only(2000 + kHalf, 8));
    sends(acked(1999, 0));
    holds_own_data(0, 8);
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
}

RC_SCRIPT(ResponderGap, DuplicateDoesNotEndTheSilence, "9.7.5.1.2",
          "a duplicate behind a NAK is acknowledged; the silence towards what is ahead goes on") {
    connect();
    peer(unasked(write_only(2000, 8)));
    peer(unasked(write_only(2002, 8)));
    sends(sequence_nak(2001, 1));
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    peer(unasked(write_only(2002, 8)));
    silence(kSecond);
    peer({unasked(write_only(2001, 8)), write_only(2002, 8)});
    sends(acked(2002, 3));
}

// --- Duplicates -------------------------------------------------------------------------------------------

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
    const auto arrives = [this](const ScriptPacket& request) {
        wire::PacketView view;
        view.header = request.header();
        view.src_gid = peer_gid();
        host().deliver(view);
    };
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
    const auto arrives = [this](const ScriptPacket& request) {
        wire::PacketView view;
        view.header = request.header();
        view.src_gid = peer_gid();
        host().deliver(view);
    };
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
    const auto arrives = [this](const ScriptPacket& request) {
        wire::PacketView view;
        view.header = request.header();
        view.src_gid = peer_gid();
        host().deliver(view);
    };
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
