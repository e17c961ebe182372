// A QP that holds what comes early, in both runs of the program: what it asks for again is what is missing,
// and no more, as IBA 9.7.5.1.2 and 9.7.5.1.5 leave it free to (docs/adr, loss recovery).
#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

class SelectiveRecovery : public RcScript {
  protected:
    void connect_selective(const ConnectOptions& options = {}) {
        connect(options, {.holds_early_packets = true});
    }
    // WRITEs 1 to `count`, eight bytes each, from PSN `psn` on.
    void post_and_send_writes(std::uint32_t psn, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            post(write(1 + i, 8, std::size_t{64} * i));
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

RC_SCRIPT_IN(SelectiveRecovery, WhatIsHeldCountsWhenTheGapIsFilled, "9.7.5.1.2",
             "behind a gap requests are held: the missing one comes alone, and one ACK answers for all") {
    connect_selective();
    peer({write_only(2000, 8), write_only(2002, 8, 128), write_only(2003, 8, 192)});
    sends(sequence_nak(2001, 1));
    holds_own_data(128, 128);
    peer(write_only(2001, 8, 64));
    sends(acked(2003, 4));
    for (std::size_t offset = 0; offset < 256; offset += 64) {
        holds_peer_data(offset, 8, offset);
    }
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
