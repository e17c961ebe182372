// A QP that holds what comes early, in both runs of the program: what it asks for again is what is missing,
// and no more, as IBA 9.7.5.1.2 and 9.7.5.1.5 leave it free to (docs/adr, loss recovery).
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

constexpr TimeNs kRoundTripNs = 2'000;

class SelectiveRecovery : public RcScript {
  protected:
    void connect_selective(const ConnectOptions& options = {}) {
        connect(options, {.holds_early_packets = true});
    }
    // To a peer that is known to hold early packets: WRITEs 1 and 2 are complete, and the next PSN is 1002.
    void connect_to_selective_peer() {
        connect_selective();
        post_and_send_writes(1000, 2);
        peer(sequence_nak(1000, 0));
        sends(write_only(1000, 8));
        peer(ack(1001, 2));
        completes({ok(1), ok(2)});
    }
    // WRITEs 1 to `count`, eight bytes each, from PSN `psn` on.
    void post_and_send_writes(std::uint32_t psn, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            post(write(1 + i, 8, std::size_t{64} * i));
        }
        sends_writes(psn, 0, count);
    }
    // Of those WRITEs `count` from the `first` on, counted from 0.
    void sends_writes(std::uint32_t psn, std::uint32_t first, std::uint32_t count) {
        for (std::uint32_t i = first; i < first + count; ++i) {
            sends(write_only(psn + i, 8, std::size_t{64} * i));
        }
    }
};

RC_SCRIPT_IN(SelectiveRecovery, OneRequestGoesAgain, "9.7.5.1.2",
             "of five WRITEs the second is lost: it goes again alone, and one ACK completes what is left") {
    connect_selective();
    post_and_send_writes(1000, 5);
    peer(sequence_nak(1001, 1));
    completes(ok(1));
    sends(write_only(1001, 8, 64));
    sends_nothing();
    peer(ack(1004, 5));
    completes({ok(2), ok(3), ok(4), ok(5)});
    EXPECT_EQ(host().counters.retrans_pkts.value(), 1U);
}

RC_SCRIPT_IN(
    SelectiveRecovery, PeerThatGoesBackN, "9.7.5.1.2",
    "the ACK ends where the repeated request ends: the peer discards, the rest goes again, and at the "
    "next NAK everything at once") {
    connect_selective();
    post_and_send_writes(1000, 5);
    peer(sequence_nak(1001, 1));
    completes(ok(1));
    sends(write_only(1001, 8, 64));
    peer(ack(1001, 2));
    completes(ok(2));
    sends({write_only(1002, 8, 128), write_only(1003, 8, 192), write_only(1004, 8, 256)});
    peer(ack(1004, 5));
    completes({ok(3), ok(4), ok(5)});
    post_and_send_writes(1005, 3);
    peer(sequence_nak(1005, 5));
    sends({write_only(1005, 8), write_only(1006, 8, 64), write_only(1007, 8, 128)});
    peer(ack(1007, 8));
    completes({ok(1), ok(2), ok(3)});
}

RC_SCRIPT_IN(SelectiveRecovery, NakForTheNextGap, "9.7.5.1.2",
             "of five WRITEs the second and the fourth are lost: at its NAK each goes again alone") {
    connect_selective();
    post_and_send_writes(1000, 5);
    peer(sequence_nak(1001, 1));
    completes(ok(1));
    sends(write_only(1001, 8, 64));
    sends_nothing();
    peer(sequence_nak(1003, 3));
    completes({ok(2), ok(3)});
    sends(write_only(1003, 8, 192));
    sends_nothing();
    peer(ack(1004, 5));
    completes({ok(4), ok(5)});
}

RC_SCRIPT_IN(SelectiveRecovery, RowThatIsMissing, "9.7.5.1.2",
             "of a row that is missing one packet goes again, then two, then four; the next gap begins with "
             "one again") {
    connect_to_selective_peer();
    post_and_send_writes(1002, 12);
    peer(sequence_nak(1002, 2));
    sends_writes(1002, 0, 1);
    sends_nothing();
    peer(sequence_nak(1003, 3));
    sends_writes(1002, 1, 2);
    sends_nothing();
    peer(sequence_nak(1005, 5));
    sends_writes(1002, 3, 4);
    sends_nothing();
    peer(ack(1010, 11));
    completes({ok(1), ok(2), ok(3), ok(4), ok(5), ok(6), ok(7), ok(8), ok(9)});
    peer(sequence_nak(1011, 11));
    sends_writes(1002, 9, 1);
    sends_nothing();
    peer(ack(1013, 14));
    completes({ok(10), ok(11), ok(12)});
}

RC_SCRIPT_IN(SelectiveRecovery, ReadInARowThatIsMissing, "9.7.5.1.2",
             "a READ in a row that is missing ends what goes again together, and then goes again alone") {
    connect_to_selective_peer();
    post_and_send_writes(1002, 2);
    post({read(3, 8, 1024), write(4, 8, 2048), write(5, 8, 2112)});
    sends({read_request(1004, 8, 1024), write_only(1005, 8, 2048), write_only(1006, 8, 2112)});
    peer(sequence_nak(1002, 2));
    sends_writes(1002, 0, 1);
    peer(sequence_nak(1003, 3));
    sends_writes(1002, 1, 1);
    sends_nothing();
    peer(sequence_nak(1004, 4));
    completes({ok(1), ok(2)});
    sends(read_request(1004, 8, 1024));
    sends_nothing();
    peer({response_only(1004, 5, 8, 1024), sequence_nak(1005, 5)});
    completes(ok(3));
    sends({write_only(1005, 8, 2048), write_only(1006, 8, 2112)});
    peer(ack(1006, 7));
    completes({ok(4), ok(5)});
    holds_peer_data(1024, 8, 1024);
}

RC_SCRIPT_IN(
    SelectiveRecovery, AckThatStandsStill, "9.7.5.1.2",
    "the NAK is lost: an ACK that does not advance, while requests behind it are in flight, names the "
    "one that a peer misses which is known to hold") {
    connect_to_selective_peer();
    post_and_send_writes(1002, 3);
    peer(ack(1001, 2));
    sends(write_only(1002, 8));
    sends_nothing();
    peer(ack(1004, 5));
    completes({ok(1), ok(2), ok(3)});
}

RC_SCRIPT_IN(SelectiveRecovery, AckThatStandsStillAfterALoss, "9.7.5.1.2",
             "the same of a peer that nothing is known of, on a wire that has just lost a response") {
    connect_selective();
    post({read(9, 8), read(10, 8, 64)});
    sends({read_request(1000, 8), read_request(1001, 8, 64)});
    peer(response_only(1001, 2, 8, 64));
    sends(read_request(1000, 8));
    peer(response_only(1000, 2, 8));
    completes({ok(9), ok(10)});
    post_and_send_writes(1002, 3);
    peer(ack(1001, 2));
    sends(write_only(1002, 8));
    sends_nothing();
    peer(ack(1004, 5));
    completes({ok(1), ok(2), ok(3)});
}

RC_SCRIPT_IN(
    SelectiveRecovery, AckThatStandsStillWithoutALoss, "9.7.7.2",
    "an ACK that does not advance, on a wire that has lost nothing, brings credits: nothing goes again") {
    connect_selective();
    post_and_send_writes(1000, 3);
    peer(ack(999, 0));
    sends_nothing();
    peer(ack(1002, 3));
    completes({ok(1), ok(2), ok(3)});
}

RC_SCRIPT_IN(SelectiveRecovery, SilenceOnAWireThatLostNothing, "9.7.6.1.3",
             "round trips are short, but nothing was lost yet: the ACK timeout alone decides that a request "
             "was, since the peer may be busy") {
    connect_selective({.timeout = kTimeout});
    post_and_send_writes(1000, 3);
    wait(kRoundTripNs);
    peer(ack(1002, 3));
    completes({ok(1), ok(2), ok(3)});
    post_and_send_writes(1003, 1);
    sends_within(kLeast, kMost, write_only(1003, 8));
    peer(ack(1003, 4));
    completes(ok(1));
}

RC_SCRIPT_IN(
    SelectiveRecovery, SilenceAfterALoss, "9.7.6.1.3",
    "a short while after a loss a request whose ACK is overdue goes again long before the ACK timeout") {
    connect_selective({.timeout = kTimeout});
    post_and_send_writes(1000, 2);
    wait(kRoundTripNs);
    peer(sequence_nak(1000, 0));
    sends(write_only(1000, 8));
    wait(kRoundTripNs);
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
    post_and_send_writes(1002, 1);
    sends_within(kRoundTripNs, kLeast / 4, write_only(1002, 8));
    peer(ack(1002, 3));
    completes(ok(1));
}

RC_SCRIPT_IN(
    SelectiveRecovery, OneGapAfterTheOther, "9.7.5.1.5",
    "of a READ the second, third and fifth response are lost: each gap is asked for alone, the next one "
    "when the one before has come") {
    connect_selective({.mtu = 256});
    post(read(1, 1536));
    sends(read_request(1000, 1536));
    peer({response_first(1000, 1, 256), response_middle(1003, 256, 768), response_last(1005, 1, 256, 1280)});
    sends(read_request(1001, 512, 256));
    sends_nothing();
    answers_read(1001, 1, 512, 256);
    sends(read_request(1004, 256, 1024));
    completes_nothing();
    peer(response_only(1004, 1, 256, 1024));
    completes(ok(1).bytes(1536));
    holds_peer_data(0, 1536, 0);
}

RC_SCRIPT_IN(SelectiveRecovery, NoEarlierPartOfAReadAfterALaterOne, "9.7.5.1.5",
             "while the answer to a request for a gap is missing no later gap of the READ is asked for: its "
             "responder may know no more of a READ than what was asked for last") {
    connect_selective({.mtu = 256, .timeout = kTimeout});
    post({read(1, 1536), read(2, 8, 4096)});
    sends({read_request(1000, 1536), read_request(1006, 8, 4096)});
    peer({response_first(1000, 1, 256), response_middle(1002, 256, 512), response_middle(1003, 256, 768),
          response_last(1005, 1, 256, 1280), response_only(1006, 2, 8, 4096)});
    sends(read_request(1001, 256, 256));
    sends_nothing();
    sends_within(1, kMost, read_request(1001, 256, 256));  // its answer got lost
    peer(response_only(1001, 2, 256, 256));
    sends(read_request(1004, 256, 1024));
    peer(response_only(1004, 2, 256, 1024));
    completes({ok(1), ok(2)});
    holds_peer_data(0, 1536, 0);
}

RC_SCRIPT_IN(
    SelectiveRecovery, AtomicAloneIsReplayed, "9.7.5.1.3",
    "the response of an atomic is lost, that of a READ behind it comes: the atomic goes again alone") {
    connect_selective();
    post({fetch_add(1, 2), write(2, 8, 64), read(3, 8, 128)});
    sends({fetch_add_request(1000, 2), write_only(1001, 8, 64), read_request(1002, 8, 128)});
    peer(response_only(1002, 3, 8, 128));
    completes_nothing();
    sends(fetch_add_request(1000, 2));
    sends_nothing();
    peer(atomic_ack(1000, 3, 40));
    completes({ok(1), ok(2), ok(3)});
    EXPECT_EQ(word(0), 40U);
    holds_peer_data(128, 8, 128);
}

RC_SCRIPT_IN(
    SelectiveRecovery, WhatIsHeldCountsWhenTheGapIsFilled, "9.7.5.1.2",
    "behind a gap requests are held, unseen by the application: the missing one comes alone, and the "
    "newest answer acknowledges all") {
    connect_selective();
    post_receive(1, 64, 4096);
    const std::uint64_t counter = word(256);
    peer({write_only(2000, 8), write_only(2002, 8, 128), send_only(2003, 8, 192),
          fetch_add_request(2004, 1, 256)});
    sends(sequence_nak(2001, 1));
    holds_own_data(128, 64);
    receives({});
    EXPECT_EQ(word(256), counter);
    EXPECT_EQ(host().held_frames.size(), 3U);
    peer(write_only(2001, 8, 64));
    sends(atomic_ack(2004, 5, counter).credits(0));
    receives(ok(1));
    for (std::size_t offset = 0; offset < 192; offset += 64) {
        holds_peer_data(offset, 8, offset);
    }
    holds_peer_data(4096, 8, 192);
    EXPECT_EQ(word(256), counter + 1);
    EXPECT_EQ(host().held_frames.size(), 0U);
}

RC_SCRIPT_IN(
    SelectiveRecovery, EarlyRequestThatAsksDrawsAnAck, "9.7.5.1.2",
    "behind a gap for which the NAK was sent, a request that asks for an ACK draws one that does not "
    "advance: the NAK may be lost") {
    connect_selective();
    peer(unasked(write_only(2001, 8, 64)));
    sends(sequence_nak(2000, 0));
    peer(unasked(write_only(2002, 8, 128)));
    sends_nothing();
    peer(write_only(2003, 8, 192));
    sends(acked(1999, 0));
    peer(write_only(2000, 8));
    sends(acked(2003, 4));
}

RC_SCRIPT_IN(SelectiveRecovery, EarlyRequestIsCheckedInItsTurn, "9.7.4.1.5",
             "a held request with a wrong R_Key is refused when the missing one has come, and what is held "
             "behind it is not executed") {
    connect_selective();
    peer({unasked(write_only(2001, 8, 64).rkey(memory().key() + 1)), unasked(write_only(2002, 8, 128))});
    sends(sequence_nak(2000, 0));
    state(QpState::kRts);
    peer(write_only(2000, 8));
    refuses(2001, 1, kAccess);
    holds_peer_data(0, 8, 0);
    holds_own_data(64, 128);
    EXPECT_EQ(host().held_frames.size(), 0U);
}

RC_SCRIPT_IN(SelectiveRecovery, EarlySendWaitsForAReceive, "9.7.5.2.8",
             "a held SEND that finds no receive in its turn draws an RNR NAK, and comes again") {
    connect_selective({.min_rnr_timer = 1});
    post_receive(1, 64);
    peer({unasked(send_only(2001, 8, 64)), unasked(send_only(2002, 8, 128))});
    sends(sequence_nak(2000, 0));
    peer(send_only(2000, 8));
    receives(ok(1));
    sends(rnr_nak(2001, 1, 1));
    post_receive(2, 64, 1024);
    post_receive(3, 64, 2048);
    peer({unasked(send_only(2001, 8, 64)), send_only(2002, 8, 128)});
    receives({ok(2), ok(3)});
    sends(acked(2002, 3));
    holds_peer_data(1024, 8, 64);
    holds_peer_data(2048, 8, 128);
}

RC_SCRIPT_IN(SelectiveRecovery, WhatIsHeldIsBounded, "9.7.5.1.2",
             "a peer that sends early packets without end: those beyond the reorder buffer are discarded") {
    connect_selective();
    ScriptPackets early;
    for (std::uint32_t i = 1; i < 4 * kReorderBufferPackets; ++i) {
        early.push_back(unasked(write_only(2000 + i, 8)));
    }
    peer(early);
    sends(sequence_nak(2000, 0));
    EXPECT_EQ(host().held_frames.size(), kReorderBufferPackets - 1);
    peer(write_only(2000, 8));
    sends(acked(2000 + kReorderBufferPackets - 1, kReorderBufferPackets));
    EXPECT_EQ(host().held_frames.size(), 0U);
}

RC_SCRIPT_IN(SelectiveRecovery, EarlyPacketWithAPsnOfARead, "9.7.3.1",
             "a held request with a PSN that turns out to be one of a READ's responses is dropped; the one "
             "behind the READ is executed") {
    connect_selective();
    peer({unasked(write_only(2002, 8, 8192)), unasked(write_only(2004, 8, 8256))});
    sends(sequence_nak(2000, 0));
    EXPECT_EQ(host().held_frames.size(), 2U);
    peer(read_request(2000, 4096));
    for (const auto& response : {response_first(2000, 2, 1024), response_middle(2001, 1024, 1024),
                                 response_middle(2002, 1024, 2048), response_last(2003, 2, 1024, 3072)}) {
        sends(Packet(response).credits(0));
    }
    holds_own_data(8192, 64);
    holds_peer_data(8256, 8, 8256);
    EXPECT_EQ(host().held_frames.size(), 0U);
}

RC_SCRIPT_IN(SelectiveRecovery, ResetReleasesWhatIsHeld, "10.3.1", "RESET drops what is held") {
    connect_selective();
    peer(unasked(write_only(2001, 8, 64)));
    sends(sequence_nak(2000, 0));
    EXPECT_EQ(host().held_frames.size(), 1U);
    modify(QpState::kReset);
    EXPECT_EQ(host().held_frames.size(), 0U);
    EXPECT_EQ(host().reorder_buffers.free_tables(), 2U);
    holds_own_data(64, 8);
}

RC_SCRIPT_IN(
    SelectiveRecovery, RowThatIsMissingDrawsOneNak, "9.7.5.1.2",
    "towards a requester that goes back N: a row that is missing draws one NAK, the gap behind what is "
    "held another") {
    connect_selective();
    for (const std::uint32_t psn : {2003U, 2005U, 2000U, 2001U, 2002U}) {
        peer(unasked(write_only(psn, 8)));
        if (psn == 2003) {
            sends(sequence_nak(2000, 0));
        }
        if (psn != 2002) {
            sends_nothing();
        }
    }
    sends(sequence_nak(2004, 4));
}

}  // namespace
}  // namespace urnic::sim
