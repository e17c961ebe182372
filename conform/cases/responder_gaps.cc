// The responder when requests are missing (IBA 9.7.4.1.1, 9.7.5.1.2). What arrives behind a gap may be kept
// or discarded: these peers send it again, and look at the wire and at what the application sees.
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kHalf = 1U << 23U;

CONFORM_CASE(ResponderGap, OneNakThenSilence, "9.7.5.1.2",
             "behind a gap: one NAK 0x60 with the PSN that is missing, then silence until it comes") {
    connect();
    peer(unasked(write_only(2001, 8, 64)));
    sends(sequence_nak(2000, 0));
    peer({unasked(write_only(2002, 8, 128)), unasked(write_only(2003, 8, 192))});
    silence(kSecond);
    counts(&Counters::out_of_seq_request, 3);
    peer({unasked(write_only(2000, 8)), unasked(write_only(2001, 8, 64)), unasked(write_only(2002, 8, 128)),
          write_only(2003, 8, 192)});
    sends(acked(2003, 4));
    for (std::size_t offset = 0; offset < 256; offset += 64) {
        holds_peer_data(offset, 8, offset);
        holds_own_data(offset + 8, 56);
    }
}

CONFORM_CASE(ResponderGap, NakOnceMoreForTheNextGap, "9.7.5.1.2",
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

CONFORM_CASE(ResponderGap, NakSaysWhatCameBefore, "9.7.5.1.2",
             "the NAK's PSN acknowledges all before it, its MSN counts them") {
    connect();
    peer({unasked(write_only(2000, 8)), unasked(write_only(2001, 8)), unasked(write_only(2003, 8))});
    sends(sequence_nak(2002, 2));
    peer({unasked(write_only(2002, 8)), write_only(2003, 8)});
    sends(acked(2003, 4));
}

CONFORM_CASE(
    ResponderGap, ReorderedInsideABurst, "9.7.5.1.2",
    "a gap that the same burst fills draws no NAK, whether one is owed or was sent for another gap") {
    connect();
    peer({unasked(write_only(2002, 8)), unasked(write_only(2000, 8))});
    sends(sequence_nak(2001, 1));
    peer({write_only(2002, 8), write_only(2001, 8), write_only(2002, 8), write_only(2003, 8)});
    sends(acked(2003, 4));
    peer({write_only(2005, 8), write_only(2004, 8), write_only(2005, 8)});
    sends(acked(2005, 6));
}

CONFORM_CASE(ResponderGap, MissingFirst, "9.7.5.1.2",
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

CONFORM_CASE(ResponderGap, MissingMiddle, "9.7.5.1.2",
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

CONFORM_CASE(ResponderGap, MissingLast, "9.7.5.1.2",
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

CONFORM_CASE(
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

CONFORM_CASE(
    ResponderGap, LatePacketAskedForAgain, "9.7.5.1.2",
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

CONFORM_CASE(ResponderGap, MessagesKeepTheirOrder, "9.5",
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

CONFORM_CASE(ResponderGap, ReadBehindIt, "9.7.5.1.2",
             "a READ behind a gap is not answered; asked for again it is, once") {
    connect({.mtu = 256});
    peer(read_request(2001, 300, 4096));
    sends(sequence_nak(2000, 0));
    silence(kSecond);
    peer({unasked(write_only(2000, 8)), read_request(2001, 300, 4096)});
    sends({response_first(2001, 2, 256, 4096).credits(0), response_last(2002, 2, 44, 4352).credits(0)});
    holds_peer_data(0, 8, 0);
}

CONFORM_CASE(ResponderGap, AtomicBehindIt, "9.7.5.1.2",
             "an atomic behind a gap is executed once, when its turn comes") {
    connect();
    set_word(64, 10);
    peer(fetch_add_request(2001, 1, 64));
    sends(sequence_nak(2000, 0));
    holds_word(64, 10);
    peer({unasked(write_only(2000, 8)), fetch_add_request(2001, 1, 64)});
    sends(atomic_ack(2001, 2, 10).credits(0));
    holds_word(64, 11);
}

CONFORM_CASE(ResponderGap, ResponsesBeforeTheNak, "9.7.5.1.1",
             "a READ before the gap is answered in full, then comes the NAK") {
    connect({.mtu = 256});
    peer({read_request(2000, 300), unasked(write_only(2003, 8, 4096))});
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 44, 256).credits(0),
           sequence_nak(2002, 1)});
}

CONFORM_CASE(ResponderGap, BadRequestBehindIt, "9.7.4.1.1",
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

CONFORM_CASE(ResponderGap, HalfOfThePsnSpace, "9.7.1",
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

CONFORM_CASE(ResponderGap, DuplicateDoesNotEndTheSilence, "9.7.5.1.2",
             "a duplicate behind a NAK is acknowledged; the silence towards what is ahead continues") {
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

}  // namespace
}  // namespace urnic::conform
